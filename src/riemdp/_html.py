"""Small HTML tables for notebooks. Every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_LEFT = "text-align:left;vertical-align:top;padding-right:1em"
_RED = "background:#b00020;color:#fff;padding:2px 8px;font-weight:bold"


def facts(
    caption: str, rows: Sequence[tuple[str, str]], *, warning: str = "", block: str = ""
) -> str:
    """A table of names and values.

    Args:
        caption: What the table is about.
        rows: (name, value) in plain text; rows without a name span both columns.
        warning: A sentence that has to be seen first.
        block: Text that keeps its layout, below the table.
    """
    lines = [
        f'<tr><th style="{_LEFT}">{escape(name)}</th><td style="{_LEFT}">{escape(text)}</td></tr>'
        if name
        else f'<tr><td colspan="2" style="{_LEFT}">{escape(text)}</td></tr>'
        for name, text in rows
    ]
    return _framed(caption, "".join(lines), warning, block)


def grid(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = ""
) -> str:
    """A table with a row of names above its columns.

    Args:
        caption: What the table is about.
        head: The names of the columns.
        rows: The cells, in plain text.
        note: Sentences below the table.
    """
    top = "".join(f'<th style="{_LEFT}">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_LEFT}">{escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{escape(note)}</p>" if note else ""
    return _framed(caption, f"<tr>{top}</tr>{body}", "", "") + below


def of_lines(text: str, *, warning: str = "", block: str = "") -> str:
    """A printed object as a table: its first line is the caption, "name: value" makes a row."""
    caption, *lines = text.splitlines()
    rows: list[tuple[str, str]] = []
    for line in lines:
        if warning and line.strip() == warning:
            continue
        name, colon, value = line.strip().partition(": ")
        rows.append((name, value) if colon else ("", line.strip()))
    return facts(caption, rows, warning=warning, block=block)


def _framed(caption: str, body: str, warning: str, block: str) -> str:
    banner = f'<div style="{_RED}">{escape(warning)}</div>' if warning else ""
    title = f'<caption style="{_LEFT};font-weight:bold">{escape(caption)}</caption>'
    below = f"<pre>{escape(block)}</pre>" if block else ""
    return f"<div>{banner}<table>{title}{body}</table>{below}</div>"
