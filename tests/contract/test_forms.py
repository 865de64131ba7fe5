"""Records in another form are the same records: the same bits, and nobody's array is changed. What
was pickled or cloned releases the same, and holds the same.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import riemdp
from riemdp import mechanisms as m

from . import data as d
from .entries import RUNNING
from .entry import BUDGET, PURE, numbers
from .outcomes import SEED, expected, outcome_of, valid
from .rows_of_estimators import Fitted

FITS = [entry for entry in RUNNING if entry.name.startswith("riemdp.Private")]


def ids(entry):
    return entry.id


def foreign(records):
    """The numbers in float16, of the other byte order, not in C order, and read-only."""
    found = np.asfortranarray(records.astype(">f2"))
    found.flags.writeable = False
    return found


def listed(records):
    """The numbers in a list of float32 arrays, each of the other order."""
    return [np.asfortranarray(record.astype(np.float32)) for record in records]


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_records_in_another_form(entry):
    """All forms hold the same numbers, which float16 has."""
    data = valid(entry)
    plain = np.asarray(entry.first(data)).astype(np.float16).astype(np.float64)
    forms = [plain.astype("<f4"), foreign(plain), *([listed(plain)] if entry.lists else [])]
    wanted = outcome_of(entry, entry.with_records(data, plain))
    for form in forms:
        before = pickle.dumps(form)
        found = outcome_of(entry, entry.with_records(data, form))
        assert pickle.dumps(form) == before, "the caller's records were changed"
        assert (found.ended, found.charged) == (wanted.ended, wanted.charged), found.said
        if wanted.ended == "returns":
            assert np.array_equal(numbers(found.result), numbers(wanted.result))


@pytest.mark.parametrize("entry", RUNNING, ids=ids)
def test_what_is_released_can_be_pickled(entry):
    result = expected(entry).result
    held = result.model if isinstance(result, Fitted) else result
    again = pickle.loads(pickle.dumps(held))
    assert type(again) is type(held)
    other = Fitted(again) if isinstance(result, Fitted) else again
    assert np.array_equal(numbers(other), numbers(result))


@pytest.mark.parametrize("entry", FITS, ids=ids)
def test_a_clone_and_a_pickled_estimator_fit_the_same(entry):
    from sklearn.base import clone

    wanted, data = expected(entry).result, valid(entry)
    to_fit = {name: held for name, held in data.items() if name not in wanted.model.get_params()}
    for other in (clone(wanted.model), pickle.loads(pickle.dumps(clone(wanted.model)))):
        assert not [name for name in vars(other) if name.endswith("_") and name[0] != "_"]
        assert np.array_equal(numbers(Fitted(other.fit(**to_fit))), numbers(wanted))


def of_mechanisms():
    """One mechanism of each kind, with a value of it."""
    base, value = np.eye(2), d.matrices(SEED)
    for kind in (m.TangentGaussian, m.WrappedGaussian):
        vector = np.asarray(d.SPD.log(base, value[0]))
        what = vector if kind is m.TangentGaussian else value[0]
        yield kind(d.SPD, base, sensitivity=0.1, budget=BUDGET), what
    yield m.WrappedLaplace(d.SPD, base, sensitivity=0.1, epsilon=PURE), value[0]
    yield m.RiemannianLaplace(d.SPD, sensitivity=0.1, epsilon=PURE), value[0]
    yield m.ExtrinsicGaussian(d.SPD, sensitivity=0.1, budget=BUDGET), value[0]
    yield m.ExtrinsicLaplace(d.SPD, sensitivity=0.1, epsilon=PURE), value[0]
    for kind in (m.VarianceNoise, m.TangentMeanNoise, m.TangentCovarianceNoise):
        yield kind(d.SPD, d.BALL, n=d.N, budget=BUDGET), value
    for kind in (m.AdaptiveMean, m.AdaptiveVariance):
        yield kind(d.SPD, riemdp.AdaptiveBall(), n=d.N, budget=BUDGET), value
    yield m.PrivateBall(d.SPD, d.SEARCH, n=d.N, budget=BUDGET), value
    yield m.PriorMean(d.SPD, d.PRIOR, n=d.N, budget=BUDGET), value


@pytest.mark.filterwarnings("ignore:epsilon 20:riemdp.RiemdpWarning")
def test_a_pickled_mechanism_releases_the_same():
    for made, value in of_mechanisms():
        again = pickle.loads(pickle.dumps(made))
        assert again.guarantee == made.guarantee, made
        one, other = made.release(value, SEED), again.release(value, SEED)
        assert np.array_equal(numbers(one), numbers(other)), made


@pytest.mark.parametrize(
    "optimizer",
    [
        riemdp.DPRGD(2, 0.1, 1.0),
        riemdp.DPRGD(9, 0.1, "adaptive"),
        riemdp.DPRSGD(2, 20, 0.1, 1.0, sampling="poisson", population=60),
        riemdp.DPRSVRG(1, 2, 0.1, 1.0, batch_size=20),
    ],
    ids=repr,
)
def test_a_pickled_optimizer_is_the_same(optimizer):
    assert pickle.loads(pickle.dumps(optimizer)) == optimizer
