"""What the estimators share: required parameters, seeds, and tags that tell scikit-learn what does
not apply.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid
from ..privacy import Ball, Budget


class NotSklearnShaped:
    """Records are points of a manifold (matrices, say), not rows of a table; and noise makes every
    fit different.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = (
            True  # invalid records become the centre, silently: which ones they are is private
        )
        tags.non_deterministic = True
        return tags


def required(estimator: Any, **parameters: Any) -> None:
    """Raise for the first parameter that was not given, or is of the wrong kind."""
    kinds = {
        "budget": (Budget, "give budget=riemdp.Budget(epsilon, delta)"),
        "ball": (
            Ball,
            "give ball=riemdp.Ball(center, radius), chosen without looking at the records",
        ),
    }
    for name, value in parameters.items():
        kind, remedy = kinds.get(name, (None, f"give {name}=..., it has no default"))
        if value is None or (kind is not None and not isinstance(value, kind)):
            raise InvalidArgument(f"{type(estimator).__name__}: {invalid(name, value, remedy)}")


def check_seed(random_state: Any) -> int | None:
    """None (operating system) or a whole number (reproducible, not private); scikit-learn's
    generators are refused.
    """
    if random_state is None:
        return None
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool | np.bool_):
        return int(random_state)
    raise invalid(
        "random_state",
        random_state,
        "give None (noise from the operating system) or a whole number (reproducible, "
        "not "
        "private); NumPy generators are not cryptographic and are refused",
    )
