"""Which options of a private mean go with which mechanism and ball: one table, which the release
and its plan both ask before anything is charged.

An option that would do nothing is an error and not a surprise: whoever gives it believes that it
does something.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._errors import InvalidArgument, invalid
from ..domains import AdaptiveBall, Ball, Domain
from ..manifolds import AbstractManifold
from ..privacy import Budget
from ..privacy._noise import Noise
from ..statistics import PublicPrior
from ._choices import AUTO, COMPARED, EXTRINSIC, MECHANISMS, OPTIMIZED, TANGENT_MEAN

PRIVATE_BALL = "a ball that is found privately"
PUBLIC_PRIOR = "a mean with a public prior"
# The mechanisms in a public ball that each option goes with. With a ball that is found privately
# there is one mechanism, and none of these options is its own.
_OUTPUT = (AUTO, *COMPARED, *EXTRINSIC)
GOES_WITH: dict[str, tuple[str, ...]] = {
    "weights": _OUTPUT,
    "n_min": _OUTPUT,
    "count_outside": (*_OUTPUT, TANGENT_MEAN),
}


def required_budget(budget: object, ball: object) -> Budget:
    """The budget, or the error that says where it goes: it comes after the ball."""
    if isinstance(budget, Budget):
        return budget
    if isinstance(ball, Budget):
        raise invalid(
            "ball", ball, "the third argument is the ball; give `budget` by name: budget=..."
        )
    raise invalid("budget", budget, "give a riemdp.Budget(epsilon, delta)")


def spending(budget: object, ball: object) -> tuple[Budget | Noise, Budget]:
    """What a release, or a part of one, may spend, and the budget that it states."""
    if not isinstance(budget, Noise):
        checked = required_budget(budget, ball)
        return checked, checked
    stated = budget.budget
    assert stated is not None
    return budget, stated


def public_domain(manifold: AbstractManifold, ball: object) -> Domain:
    """A public ball bound to its space."""
    if isinstance(ball, Ball):
        return ball.on(manifold)
    raise invalid(
        "ball",
        ball,
        "give a public Ball(center, radius), chosen without looking at the records, or"
        " AdaptiveBall()",
    )


def ball_or_search(ball: object) -> Ball | AdaptiveBall:
    """The ball or the search that was given; a search where it was left out."""
    if ball is None:
        return AdaptiveBall()
    if isinstance(ball, PublicPrior):
        remedy = "here give its centre as a public ball: riemdp.Ball(prior.center, radius)"
        takes = "PrivateTSClassifier and private_frechet_mean take one"
        raise invalid("ball", ball, f"{takes}; {remedy}")
    if not isinstance(ball, Ball | AdaptiveBall):
        raise invalid("ball", ball, "give a riemdp.Ball(center, radius), AdaptiveBall() or None")
    return ball


def check_options(options: Mapping[str, object], mechanism: str) -> None:
    """Refuse an option that the mechanism does nothing with.

    Args:
        options: The options, by name; None is "not given".
        mechanism: Its name; or what takes none of these options, in words.

    Raises:
        InvalidArgument: The first such option, with what to do about it.
    """
    for name, value in options.items():
        if value is None:
            continue
        if name == "count_outside" and not isinstance(value, bool):
            raise invalid(name, value, "give True, False, or None")
        if mechanism not in MECHANISMS:
            raise refused(name, value, mechanism, "give a public Ball")
        counts_nothing = name == "count_outside" and value is False and mechanism in OPTIMIZED
        if mechanism not in GOES_WITH[name] and not counts_nothing:
            ways = " or ".join(repr(kind) for kind in GOES_WITH[name])
            raise refused(name, value, f"mechanism {mechanism!r}", f"give mechanism={ways}")


def refused(name: str, value: object, what: str, otherwise: str) -> InvalidArgument:
    """The error for an option that does nothing. Arrays and objects are not shown."""
    shown = value if isinstance(value, str | int | float) else "given"
    return invalid(name, shown, f"{what} has no use for it; leave it out, or {otherwise}")
