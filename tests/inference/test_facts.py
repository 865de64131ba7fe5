"""Facts of a release: typed, frozen, and the same by name in `details`."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget
from riemdp.inference import Facts, Query

LINE, BALL = riemdp.Euclidean(1), Ball(np.zeros(1), 1.0)


def mean(**options):
    X = np.linspace(-1.0, 1.0, 60)[:, None]
    return riemdp.private_frechet_mean(LINE, X, BALL, Budget(1.0, 1e-6), rng=1, **options)


def test_details_are_the_facts_by_name_and_nothing_changes_them():
    release = mean()
    facts, details = release.facts, release.details
    assert (facts.query, facts.n, facts.ball, facts.numerics) == (
        Query.MEAN,
        60,
        BALL,
        details["numerics"],
    )
    for field in dataclasses.fields(facts):
        if field.name in details and field.name != "others":
            assert details[field.name] is getattr(facts, field.name)
    with pytest.raises(TypeError):
        details["n"] = 61
    with pytest.raises(dataclasses.FrozenInstanceError):
        facts.n = 61
    again = pickle.loads(pickle.dumps(release))
    assert dict(again.details).keys() == dict(details).keys()
    assert again.facts.query is Query.MEAN


def test_what_is_told_is_kept_and_what_is_not_known_left_out():
    facts = Facts.of({"n": 3, "steps": 7}).told({"n": 4, "people": None})
    assert dict(facts.mapping) == {"n": 4, "people": None, "steps": 7}
    assert facts.of_people
    assert not facts.found
    assert facts.told({"share_of_search": 0.1}).found


def test_a_number_of_records_that_is_protected_is_no_fact():
    facts = mean(n_min=40).facts
    assert (facts.n, facts.n_min, facts.count) == (None, 40, 40)
    assert not facts.is_equally_weighted
