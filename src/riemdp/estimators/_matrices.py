"""What estimators of symmetric positive definite matrices share: the space, the ball, labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball
from ..manifolds import AbstractManifold, spd
from ..manifolds._base import RecordsLike
from ..privacy import Budget


def ball_or_search(ball: object) -> Ball | AdaptiveBall:
    """The ball or the search that was given; a search where it was left out."""
    if ball is None:
        return AdaptiveBall()
    if not isinstance(ball, Ball | AdaptiveBall):
        raise invalid("ball", ball, "give a riemdp.AdaptiveBall() or riemdp.Ball(...), or None")
    return ball


def matrix_space(
    X: RecordsLike, metric: str, ball: Ball | AdaptiveBall, who: str
) -> AbstractManifold:
    """The space of matrices as large as the public centre of the ball, or as the array's.

    Args:
        X: The matrices; of an array only the shape is looked at, of a list nothing.
        metric: A name that `spd` knows.
        ball: Where they are expected.
        who: The estimator, for an error.
    """
    outer = ball if isinstance(ball, Ball) else ball.outer
    given = getattr(X, "shape", None)
    given = tuple(given) if isinstance(given, tuple) else None
    if outer is not None:
        shape = np.shape(outer.center)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidArgument(
                f"argument `ball` has a centre of shape {shape}; {who} needs a square matrix"
            )
    elif given is not None and len(given) == 3 and given[1] == given[2]:
        shape = given[1:]
    else:
        raise InvalidArgument(
            f"argument `X` {'is no array' if given is None else f'has shape {given}'}; give"
            " symmetric positive definite matrices of shape (n, k, k), or the size of a matrix"
            " by a ball: ball=AdaptiveBall(outer=Ball(center, radius))"
        )
    size = int(shape[0])
    if given is not None and given[1:] != tuple(shape):
        raise InvalidArgument(
            f"argument `X` has shape {given}; give symmetric positive definite matrices of the"
            f" size of the ball's centre, shape (n, {size}, {size})"
        )
    return spd(size, metric)


def composable(ball: Ball | AdaptiveBall, budget: Budget) -> dict[str, Any]:
    """How a mean in a public ball is released, so that all steps of a pipeline add up exactly: one
    law of noise, whatever n is. A search uses that law anyway.
    """
    if isinstance(ball, AdaptiveBall):
        return {}
    name = "wrapped-gaussian" if budget.delta > 0 else "wrapped-laplace"
    return {"mechanism": name, "count_outside": False}


def known_classes(
    classes: Sequence[Any] | np.ndarray | None, y: ArrayLike, labels: str
) -> np.ndarray:
    """The possible labels: the ones given, or those of public labels."""
    if classes is not None:
        found = np.unique(np.asarray(classes))
        if found.size == 0:
            raise invalid("classes", classes, "give at least one label")
        return found
    if labels == "private":
        raise invalid(
            "classes",
            None,
            "private labels need the list of possible labels; taking it from the data would"
            " reveal it",
        )
    return np.unique(np.asarray(y))  # public labels


def public_sizes(labels: np.ndarray, classes: np.ndarray) -> list[int]:
    """How many records each class has, where labels are public; none of them 0."""
    sizes = [int(np.count_nonzero(labels == i)) for i in range(len(classes))]
    if min(sizes) == 0:
        raise InvalidArgument(
            f"argument `y` has no record of class {classes[sizes.index(0)]!r}; leave it out of"
            " `classes`"
        )
    return sizes
