"""Cells of the contract that are known to be red are expected to fail, strictly: `pending.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

PENDING = Path(__file__).with_name("pending.txt")


def pending() -> dict[str, str]:
    """The cells that show a known fault: name in this folder -> the fault.

    One a line, `fault: file::test`. A fault that is mended makes its cell pass, which fails the
    suite until the line is taken out.
    """
    lines = [line.strip() for line in PENDING.read_text(encoding="utf-8").splitlines()]
    pairs = (line.split(": ", 1) for line in lines if line and not line.startswith("#"))
    return {name: fault for fault, name in pairs}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is pending."""
    known = pending()
    for item in items:
        if item.path.parent == PENDING.parent:
            name = f"{item.path.name}::{item.nodeid.split('::', 1)[1]}"
            if name in known:
                item.add_marker(pytest.mark.xfail(strict=True, reason=known[name]))
