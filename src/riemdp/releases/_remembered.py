"""What releases of one kind of mean have in common: the query, and the mechanism with its count.

Each is a function of public facts, made once for equal facts. What holds the records' own gradient
is made anew.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings

from .._errors import SlowSamplerWarning
from ..domains._domain import DomainOfMeans
from ..mechanisms import RiemannianLaplace
from ..mechanisms._counted import Counted
from ..mechanisms._for_mean import MeanFacts
from ..sampling._laplace import warn_if_slow
from ._choices import build


def remembered(facts: MeanFacts) -> MeanFacts:
    """The first of equal facts, with the query that was made for it."""
    return _first(facts) if facts.may_be_kept else facts


@functools.lru_cache(maxsize=64)
def _first(facts: MeanFacts) -> MeanFacts:
    return facts


def counted_mechanism(name: str, facts: MeanFacts, shown: int | None) -> Counted:
    """A mechanism for a Fréchet mean in the frame of its domain, with the count of what lies
    outside beside it.

    Args:
        name: Of the mechanism.
        facts: What is public about the mean.
        shown: The number of records, where it is public.
    """
    made = (_counted if facts.may_be_kept else _made)(name, facts, shown)
    if isinstance(made.inner, RiemannianLaplace):
        warn_if_slow(made.inner.manifold, made.inner.tries)
    return made


def _made(name: str, facts: MeanFacts, shown: int | None) -> Counted:
    local = dataclasses.replace(facts, domain=DomainOfMeans.of(facts.domain.frame.local))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowSamplerWarning)  # said at every release
        return local.counted(build(name, local), shown)


_counted = functools.lru_cache(maxsize=64)(_made)
