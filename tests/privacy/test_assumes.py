"""What a guarantee rests on goes with it: through compositions, files and words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import riemdp
from riemdp.privacy import Guarantee, Ledger, approximate, gaussian, none, participation, pure
from tests.seam import Accounts

SITES = "at most 1 of 3 sites is missing or colludes"
CLOCK = "the clock is right"


def test_a_composition_assumes_what_its_parts_do() -> None:
    one, other = gaussian(4.0).assuming(SITES), pure(0.1).assuming(CLOCK)
    both = one.compose(other, one)
    assert both.assumes == f"{SITES}; {CLOCK}" == other.compose(one).assumes
    assert one.compose(gaussian(4.0)).assumes == SITES
    assert gaussian(4.0).assumes == ""
    assert one != gaussian(4.0)
    assert one.compose(none()) == none()


@pytest.mark.parametrize(
    "derived",
    [
        lambda g: g.repeat(3),
        lambda g: g.repeat(0).compose(g),
        lambda g: g.group(2),
        lambda g: g.compose(approximate(0.1, 1e-9)).group(2),
        lambda g: g.for_people(),
        lambda g: g.for_people().for_records(),
        lambda g: g.quoted_at(1e-6),
        lambda g: participation(g, agents=10, sampled=2, rounds=3),
        lambda g: participation(g, agents=2, sampled=2, rounds=3),
        lambda g: Guarantee.from_dict(json.loads(json.dumps(g.to_dict()))),
    ],
)
def test_it_is_not_lost_on_the_way(derived) -> None:
    assert derived(gaussian(4.0).assuming(SITES)).assumes == SITES


def test_a_ledger_keeps_it_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ledger = Ledger(riemdp.Budget(4.0, 1e-5), path=path)
    ledger.spend(gaussian(4.0).assuming(SITES))
    ledger.spend(pure(0.1))
    again = Ledger(riemdp.Budget(4.0, 1e-5), path=path)
    assert again.spent.assumes == SITES
    assert [entry.guarantee.assumes for entry in again.entries] == [SITES, ""]
    assert SITES in str(again.spent)


def test_a_planned_run_covers_its_own_assumptions_only() -> None:
    whole, part = gaussian(4.0, 9).assuming(SITES), gaussian(4.0, 2)
    assert Accounts.covers(whole, part.assuming(SITES))
    assert Accounts.covers(whole, part)
    assert not Accounts.covers(whole, part.assuming(CLOCK))
    assert not Accounts.covers(gaussian(4.0, 9), part.assuming(SITES))
