"""Tests of faults that are not mended yet are expected to fail, strictly; see `pending.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest


def pending(folder: Path) -> dict[str, str]:
    """The tests of a folder that show a known fault: name in this folder -> the fault.

    One a line, `fault: file::test`. A mended fault makes its test pass, which fails the suite until
    the line is taken out.
    """
    text = (folder / "pending.txt").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines()]
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    return {name: fault for fault, name in pairs}


def mark_pending(folder: Path, items: list[pytest.Item]) -> None:
    """Expect the failure of what is pending in a folder."""
    known = pending(folder)
    for item in items:
        if item.path.parent == folder:
            name = f"{item.path.name}::{item.nodeid.split('::', 1)[1]}"
            if name in known:
                item.add_marker(pytest.mark.xfail(strict=True, reason=known[name]))
