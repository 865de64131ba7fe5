"""Attacks on faults that are not fixed yet are expected to fail, strictly: see `pending.txt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pending import mark_pending


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is pending."""
    mark_pending(Path(__file__).parent, items)
