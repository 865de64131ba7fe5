"""Cells of the contract that are known to be red are expected to fail, strictly: `pending.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pending import mark_pending


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is pending."""
    mark_pending(Path(__file__).parent, items)
