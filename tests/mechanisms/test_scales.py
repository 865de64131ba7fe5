"""Noise at equal budget stays what it was: scales, the noise of counts and guarantees of releases
of every kind, beside `scales.json`, where they stand as they were on 28 November 2026.

Made anew, where a change is meant, by `python -m tests.mechanisms.test_scales`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from .scale_cases import cases, noise_of

TABLE = Path(__file__).with_name("scales.json")
BEFORE: dict[str, dict[str, float]] = json.loads(TABLE.read_text())
# A scale has 28 significant bits, rounded up: what moves the number before it by 1e-9 can move a
# scale by one of its steps.
EQUAL, STEP = 1e-9, 2.0**-27


def differs(now: dict[str, float], before: dict[str, float]) -> list[str]:
    """The figures that are not those of before."""
    names = sorted({*now, *before})
    return [
        f"{name}: {before.get(name)} before, {now.get(name)} now"
        for name in names
        if name not in now
        or name not in before
        or abs(now[name] - before[name]) > (EQUAL + STEP) * abs(before[name])
    ]


@pytest.mark.filterwarnings("ignore::riemdp.RiemdpWarning")
@pytest.mark.parametrize("name", cases())
def test_noise_at_equal_budget_is_what_it_was(name: str) -> None:
    assert differs(noise_of(cases()[name]()), BEFORE[name]) == []


def test_no_case_is_left_out() -> None:
    assert sorted(BEFORE) == sorted(cases())


def test_a_millionth_less_noise_is_seen() -> None:
    before = BEFORE["gaussian mean with a count"]
    less = {name: (1.0 - 1e-6) * figure for name, figure in before.items()}
    assert len(differs(less, before)) >= 4
    assert differs({}, before)
    assert differs({**before, "scale 1": 1.0}, before)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    found = {name: noise_of(case()) for name, case in cases().items()}
    TABLE.write_text(json.dumps(found, indent=1) + "\n")
