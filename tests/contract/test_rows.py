"""The table is whole: every public call that releases has a row, and each row releases and charges
what it states.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import types
from pathlib import Path

import pytest

import riemdp
from riemdp import Guarantee
from tests.pending import pending
from tests.public import offered

from .entries import ENTRIES, RUNNING
from .entry import CLAIMS, COUNTED, REFUSED
from .outcomes import expected

# Public callables that look like releases and are none, with the reason.
NO_RELEASE = {
    "riemdp.privacy.Ledger": "keeps a budget",
    "riemdp.privacy.session_ledger": "keeps a budget",
    "riemdp.privacy.charge": "charges what a caller releases",
    "riemdp.privacy.split_budget": "arithmetic of budgets",
    "riemdp.privacy.calibrate": "arithmetic of budgets",
    "riemdp.privacy.gaussian_noise_multiplier": "arithmetic of budgets",
    "riemdp.privacy.allocated_gaussian_noise_multiplier": "arithmetic of budgets",
    "riemdp.privacy.subsampled_gaussian_noise_multiplier": "arithmetic of budgets",
    "riemdp.optimizers.plan_optimizer": "a plan, from public numbers",
    "riemdp.federated.plan_federated": "a plan, from public numbers",
    "riemdp.estimators.plan_private_classifier": "a plan, from public numbers",
    "riemdp.estimators.ClassifierRow": "a plan, from public numbers",
    "riemdp.releases.ComparisonRow": "a plan, from public numbers",
    "riemdp.releases.ClusterRow": "a plan, from public numbers",
    "riemdp.releases.CurveRow": "a plan, from public numbers",
    "riemdp.releases.DirectionRow": "a plan, from public numbers",
    "riemdp.estimators.plan_private_regressor": "a plan, from public numbers",
    "riemdp.estimators.FitRow": "a plan, from public numbers",
    "riemdp.estimators.RegressorRow": "a plan, from public numbers",
    "riemdp.releases.PriorRow": "a plan, from public numbers",
    "riemdp.releases.SearchRow": "a plan, from public numbers",
    "riemdp.estimators.SearchRow": "a plan, from public numbers",
    "riemdp.estimators.plan_private_search": "a plan, from public numbers",
    "riemdp.releases.PlanRow": "a plan, from public numbers",
    "riemdp.releases.MeanRow": "a plan, from public numbers",
    "riemdp.inference.Facts": "public facts of a release",
    "riemdp.mechanisms.Release": "what was released",
    "riemdp.federated.Setup": "settings of a run, agreed in public",
    "riemdp.federated.Site": "limits of a site; what it answers by is `answer`",
    "riemdp.federated.Coordinator": "the server, which sees released numbers only",
    "riemdp.report.PrivacyReport": "describes a release",
    "riemdp.report.privacy_report": "describes a release",
    "riemdp.mechanisms.AbstractMechanism": "the base of mechanisms; each has its row",
}
MADE = re.compile(r"\b(Release|OptimizationResult|FederatedResult)\b")


def packages() -> list[types.ModuleType]:
    """All public packages."""
    names = [n for n in riemdp.__all__ if isinstance(getattr(riemdp, n), types.ModuleType)]
    found = [importlib.import_module(f"riemdp.{name}") for name in names]
    if importlib.util.find_spec("flwr") is None:
        return found
    return [*found, importlib.import_module("riemdp.federated.flower")]


def looks_like_a_release(thing: object) -> bool:
    """Whether it takes a budget or a ledger, makes a release, or has a method that does."""
    try:
        signature = inspect.signature(thing)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return False
    if {"budget", "ledger"} & set(signature.parameters):
        return True
    if inspect.isclass(thing):
        return callable(getattr(thing, "release", None))
    return bool(MADE.search(str(signature.return_annotation)))


def suspects() -> dict[str, str]:
    """Public callables that look like a release: home -> the name that a row would have."""
    found, seen = {}, []  # what another package offers too is seen once
    for package in packages():
        for name in offered(package):
            thing = getattr(package, name)
            if not callable(thing) or not looks_like_a_release(thing) or thing in seen:
                continue
            seen.append(thing)
            top = f"riemdp.{name}" if getattr(riemdp, name, None) is thing else ""
            home = f"{package.__name__}.{name}"
            if inspect.isclass(thing) and callable(getattr(thing, "release", None)):
                found[home] = f"{home}.release"
            else:
                found[home] = top or home
    return found


def test_every_public_call_that_releases_has_a_row():
    rows = {entry.name for entry in ENTRIES}
    found = suspects()
    missing = {home for home, row in found.items() if row not in rows}
    assert not missing - set(NO_RELEASE), sorted(missing - set(NO_RELEASE))
    places = {f"{package.__name__}." for package in packages()}
    stale = {n for n in set(NO_RELEASE) - missing if n.rpartition(".")[0] + "." in places}
    assert not stale, f"no exception is needed for {sorted(stale)}"


def test_a_call_without_a_row_is_seen(monkeypatch):
    def private_mode(X, *, budget, rng=None):
        return X

    monkeypatch.setattr(riemdp.releases, "__all__", [*riemdp.releases.__all__, "private_mode"])
    monkeypatch.setattr(riemdp.releases, "private_mode", private_mode, raising=False)
    assert "riemdp.releases.private_mode" in suspects()


def test_the_names_of_rows_are_names_of_the_library():
    for entry in ENTRIES:
        if entry.needs and importlib.util.find_spec(entry.needs) is None:
            continue
        thing: object = riemdp
        for part in entry.name.split()[0].split(".")[1:]:
            thing = getattr(thing, part)
        assert callable(thing), entry.name


def test_rows_are_told_apart_and_say_which_claim_they_rest_on():
    assert len({entry.id for entry in ENTRIES}) == len(ENTRIES)
    assert {entry.claim for entry in ENTRIES} == set(CLAIMS)
    assert {entry.invalid for entry in ENTRIES} == {COUNTED, REFUSED}
    for entry in ENTRIES:
        assert len({r.id for r in entry.refusals}) == len(entry.refusals), entry.id
        assert entry.refusals, entry.id


def test_what_is_pending_names_rows():
    ids = {entry.id for entry in ENTRIES}
    for name in pending(Path(__file__).parent):
        assert name.split("[", 1)[1][:-1].split(" | ")[0] in ids, name


@pytest.mark.parametrize("entry", RUNNING, ids=lambda e: e.id)
def test_valid_data_are_released_and_charged_as_stated(entry):
    found = expected(entry)
    stated = getattr(found.result, "guarantee", None)
    charges, spent = json.loads(found.charged)
    assert charges >= 1
    if stated is None:  # a command, which prints no object: it spends all that it was given
        epsilon = Guarantee.from_dict(spent).epsilon(entry.budget.delta)
        assert 0.99 * entry.budget.epsilon <= epsilon <= entry.budget.epsilon * (1 + 1e-9)
        return
    assert stated.within(entry.budget)
    assert spent["parts"] == json.loads(json.dumps(stated.to_dict()))["parts"]
    assert spent["adjacency"] == stated.adjacency == entry.adjacency
    assert Guarantee.from_dict(spent).unit == stated.unit
    assert stated.unit == ("person" if entry.people else "record")
