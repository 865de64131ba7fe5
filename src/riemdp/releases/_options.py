"""Which options of a private mean go with which mechanism and ball: one table, which the release
and its plan both ask before anything is charged.

An option that would do nothing is an error and not a surprise: whoever gives it believes that it
does something.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._errors import InvalidArgument, invalid, one_of
from ..mechanisms._common import CALIBRATIONS
from ..privacy import Budget
from ..statistics._sensitivity import ADJACENCIES, REPLACE_ONE
from ._choices import AUTO, BY_NAME, COMPARED, EXTRINSIC, OPTIMIZED, TANGENT_MEAN

ANALYTIC, CLASSICAL = CALIBRATIONS
PRIVATE_BALL = "a ball that is found privately"
_WORDS = {"calibration": CALIBRATIONS, "adjacency": ADJACENCIES}
_FLAGS = ("clamp_release", "shrink", "count_outside")
_OUTPUT = (*COMPARED, *EXTRINSIC)


def _with_setting(name: str) -> tuple[str, ...]:
    """The mechanisms whose class has a setting of this name."""
    fields = {kind: getattr(BY_NAME[kind], "__dataclass_fields__", {}) for kind in _OUTPUT}
    return tuple(kind for kind in _OUTPUT if name in fields[kind])


# The mechanisms in a public ball that each option goes with. With a ball that is found privately
# there is one mechanism, and none of these options is its own.
GOES_WITH: dict[str, tuple[str, ...]] = {
    "weights": (AUTO, *_OUTPUT),
    # what the K-norm mechanism draws by is the gradient: its law does not hang on a solver
    "tolerance": (AUTO, *(kind for kind in COMPARED if not BY_NAME[kind].needs_gradient)),
    "calibration": (AUTO, *_with_setting("calibration")),
    "optimizer": OPTIMIZED,
    "clamp_release": (AUTO, *(kind for kind in _OUTPUT if not BY_NAME[kind].stays_in_ball)),
    "shrink": (AUTO, *_with_setting("shrink")),
    "adjacency": (AUTO, *_OUTPUT),
    "n_min": (AUTO, *_OUTPUT),
    "count_outside": (AUTO, *_OUTPUT, TANGENT_MEAN),
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


def given_of(**options: object) -> dict[str, object]:
    """The options that were given. None is "not given", and so is the adjacency that every
    mechanism has.
    """
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (name == "adjacency" and value == REPLACE_ONE)
    }


def check_options(
    given: Mapping[str, object], mechanism: str | None, budgets: Sequence[object]
) -> None:
    """Refuse an option that the mechanism does nothing with, and words that are not known.

    Args:
        given: The options, by name; see `given_of`.
        mechanism: Its name, or None where the ball is found privately.
        budgets: Of the release, or those of a plan.

    Raises:
        InvalidArgument: The first such option, with what to do about it.
    """
    for name, value in given.items():
        if name in _WORDS:
            one_of(name, value, _WORDS[name])
        if name in _FLAGS and not isinstance(value, bool):
            raise invalid(name, value, "give True, False, or None for what is proved to be better")
        if mechanism is None:
            raise refused(name, value, PRIVATE_BALL, "give a public `ball`")
        if mechanism in GOES_WITH[name] or _is_done_anyway(name, value, mechanism):
            continue
        ways = " or ".join(repr(kind) for kind in GOES_WITH[name])
        raise refused(name, value, f"mechanism {mechanism!r}", f"give mechanism={ways}")
    calibration = given.get("calibration")
    if calibration == CLASSICAL and given.get("count_outside"):
        raise refused("count_outside", True, "noise as published", "give calibration='analytic'")
    gaussian = any(isinstance(b, Budget) and b.delta > 0 for b in budgets)
    if calibration is not None and not gaussian:
        raise refused("calibration", calibration, "a budget with delta = 0", "give delta > 0")


def check_shrink(shrink: bool | None, mechanism: str, dim: int) -> None:
    """Refuse `shrink` where the mechanism that runs, also one that "auto" chose, or the dimension
    leaves nothing to shrink. All of it is public.
    """
    if shrink is not None:
        check_options({"shrink": shrink}, mechanism, ())
    if shrink and dim <= 2:
        raise refused("shrink", shrink, f"a space of dimension {dim}", "use one of 3 and more")


def refused(name: str, value: object, what: str, otherwise: str) -> InvalidArgument:
    """The error for an option that does nothing. Arrays and objects are not shown."""
    shown = value if isinstance(value, str | int | float) else "given"
    return invalid(name, shown, f"{what} has no use for it; leave it out, or {otherwise}")


def _is_done_anyway(name: str, value: object, mechanism: str) -> bool:
    """Whether the option asks for what the mechanism does in any case: an optimiser counts no
    records.
    """
    return name == "count_outside" and value is False and mechanism in OPTIMIZED
