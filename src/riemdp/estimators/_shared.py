"""What the estimators share: required parameters, seeds, what was spent, scikit-learn's tags."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import numpy as np

from .._errors import InvalidArgument, invalid, one_of, warn_with_release
from ..manifolds import AbstractManifold
from ..manifolds._base import Point, RecordsLike
from ..mechanisms import Release
from ..privacy import Budget, Guarantee, Ledger, _open_ledgers
from ..privacy._ledger import refuse_sent
from ._splitters import warn_of_groups

ON_INVALID = ("raise", "center")
REMEDY = 'correct them, or give on_invalid="center" to count each as the centre'
_unrecorded = 0  # fits of this process that no ledger was charged for


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class Spending:
    """An estimator whose `fit` spends a privacy budget each time it is called. Its parameters are
    the fields of a dataclass, whose constructor is what scikit-learn asks for: it only keeps them.
    """

    budget: Budget | None = None
    on_invalid: str = "raise"
    random_state: int | None = None

    @property
    def total_spent_(self) -> Guarantee:
        """What all calls of `fit` on this object cost together, about one record in all of them.

        A clone begins anew: `cross_val_score` and the like fit clones, so only a `Ledger` adds up
        what they spend.
        """
        spent: list[Guarantee] = self.__dict__.get("_spent", [])
        if not spent:
            raise AttributeError("nothing has been spent: call fit first")
        return spent[0].compose(*spent[1:])

    def __getstate__(self) -> Any:
        """Marked while a ledger is open: another process that fits it would not charge that."""
        return _open_ledgers.marked(super().__getstate__())  # type: ignore[misc]

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(_open_ledgers.received(state))  # type: ignore[misc]

    def __sklearn_clone__(self) -> Any:
        """A clone with the mark of what it is made from: worker processes clone what they are
        sent.
        """
        warn_of_groups(type(self).__name__)
        made = super().__sklearn_clone__()  # type: ignore[misc]
        _open_ledgers.passed_on(self, made)
        return made

    def _keep_cost(self, guarantee: Guarantee, budget: Budget, *, reproducible: bool) -> None:
        """Remember what a fit cost; the first fit that no ledger was charged for warns."""
        global _unrecorded
        self.guarantee_, self.reproducible_ = guarantee, bool(reproducible)
        self._spent = [*self.__dict__.get("_spent", []), guarantee]
        if Ledger.current() is not None:
            return
        _unrecorded += 1
        if _unrecorded == 1:
            warn_with_release(
                f"{type(self).__name__}.fit spent epsilon {guarantee.epsilon(budget.delta):.4g} at"
                f" delta {budget.delta:g}, and no ledger adds up what is spent. Every fit spends"
                " again: cross_val_score with 5 folds would spend 5 times. To keep a total, work"
                " inside `with riemdp.Ledger(riemdp.Budget(epsilon, delta)):`, or call"
                " riemdp.session_ledger(riemdp.Budget(epsilon, delta)) once, with n_jobs=1: other"
                " processes do not see a ledger in memory, and refuse. This is said once"
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        # With "center" invalid records are accepted without a message: which ones is private.
        tags.input_tags.allow_nan = self.on_invalid == "center"
        tags.non_deterministic = True
        return tags


class ManifoldRecords(Spending):
    """Records are points of a manifold (matrices, say), not rows of a table."""

    manifold_: AbstractManifold

    def _tangents(self, base: Point, X: RecordsLike) -> np.ndarray:
        """Coordinates of log_base(x) in an orthonormal frame, one row per record: not private."""
        return np.asarray(self.manifold_.to_coordinates(base, self.manifold_.log(base, X)))

    def _show(self, release: Release) -> None:
        """Take over what a fit released, with the ball and the count that stand in it."""
        self.release_, self.outside_ = release, release.facts.outside
        self.ball_: Any = release.facts.ball

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def required(estimator: Spending, sample_weight: object = None, **parameters: object) -> Budget:
    """The budget; raises for the first parameter that was not given, for weights, and for what was
    sent here from beside a ledger of another process, where none is open.
    """
    name, budget = type(estimator).__name__, estimator.budget
    if Ledger.current() is None:
        _open_ledgers.refuse_sent(estimator, f"this {name}")
    refuse_sent(budget, None, f"{name}: ")
    for parameter, value in parameters.items():
        if value is None:
            remedy = f"give {parameter}=..., it has no default"
            raise InvalidArgument(f"{name}: {invalid(parameter, value, remedy)}")
    if not isinstance(budget, Budget):
        remedy = "give budget=riemdp.Budget(epsilon, delta)"
        raise InvalidArgument(f"{name}: {invalid('budget', budget, remedy)}")
    _refuse_weights(sample_weight)
    one_of("on_invalid", estimator.on_invalid, ON_INVALID)
    return budget


def _refuse_weights(sample_weight: object) -> None:
    """Weights per record are not supported: say why, and what to do."""
    if sample_weight is not None:
        raise InvalidArgument(
            "argument `sample_weight` is not supported: weights from data would change the"
            " sensitivity; leave it out, every record counts the same (public weights:"
            " riemdp.private_frechet_mean(..., weights=...))"
        )


def check_seed(random_state: object) -> int | None:
    """None (operating system) or a whole number (reproducible, not private).

    scikit-learn's generators are refused.
    """
    if random_state is None:
        return None
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool | np.bool_):
        seed = int(random_state)
        if seed >= 0:
            return seed
    raise invalid(
        "random_state",
        random_state,
        "give None (noise from the operating system) or a whole number from 0 on (reproducible,"
        " not private); NumPy generators are not cryptographic and are refused",
    )


def signed(rows: np.ndarray) -> np.ndarray:
    """Make the largest entry of each component positive, so that the sign is not arbitrary."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return rows * np.where(largest < 0, -1.0, 1.0)[:, None]
