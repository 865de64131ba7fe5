"""Groups that scikit-learn hands to a splitter alone: they protect nobody, so a warning says so."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

from .._errors import is_within, warn

_told_of: Callable[[], Any] = object  # gives the groups that were last warned of, if they live


def warn_of_groups(estimator: str) -> None:
    """Warn once of `groups` that a call of `cross_validate`, `GridSearchCV.fit` and the like gives
    to its splitter and not to `fit`; called where scikit-learn clones an estimator.

    Nothing hands a fit the arguments of who called it, and a worker process has no caller. But the
    clones are made by the calling process, the first of them by the call itself, so they are looked
    up there. With metadata routing scikit-learn itself refuses `groups` that an estimator neither
    requests nor declines.
    """
    global _told_of
    call, groups = _splitting_call()
    if call is None or _told_of() is groups:
        return
    with contextlib.suppress(TypeError):  # of a list no weak reference can be kept: said again
        _told_of = weakref.ref(groups)
    warn(
        f"{call} was given `groups`, and they decide only how records are split: {estimator}.fit"
        " does not get them, and protects one record, not one person. To protect persons, give"
        ' params={"groups": groups} to cross_validate and the like; or call'
        " sklearn.set_config(enable_metadata_routing=True) and the estimator's"
        " set_fit_request(groups=True), with which fit and splitter both get what params (of"
        " GridSearchCV.fit: groups=groups) holds. See docs/howto/estimators.md"
    )


def _splitting_call() -> tuple[str | None, Any]:
    """The outermost running call of scikit-learn's whose splitter has groups and whose fits have
    none, and these groups.
    """
    found: tuple[str | None, Any] = None, None
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if is_within(frame, {"sklearn"}):
            groups, to_fit = _given(frame.f_locals)
            if groups is not None:
                fits_too = any(k == "groups" or k.endswith("__groups") for k in to_fit)
                name = frame.f_code.co_qualname.partition(".<locals>")[0]
                found = (None, None) if fits_too else (name, groups)
        frame = frame.f_back
    return found


def _given(names: dict[str, Any]) -> tuple[Any, Any]:
    """The groups of a splitter, and what is given to `fit`, from the variables of a call; None, and
    nothing, where it is no such call.
    """
    routed = names.get("routed_params")
    if not (isinstance(routed, dict) and {"splitter", "estimator"} <= routed.keys()):
        return None, ()
    to_split, to_fit = routed["splitter"].get("split", {}), routed["estimator"].get("fit", {})
    return to_split.get("groups"), to_fit
