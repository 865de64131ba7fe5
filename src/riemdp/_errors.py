"""Named errors, warnings and argument checks that every package shares.

An error raised to a user names the argument, shows its value and says what to do instead. Values of
*records* are never put into a message: a message can end up in a log, and a log is not covered by
the privacy guarantee.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import sys
import warnings
from collections.abc import Container, Iterator
from types import FrameType
from typing import SupportsFloat, TypeGuard


class RiemdpError(Exception):
    """Base class of the errors that only this library raises."""


class InvalidArgument(RiemdpError, ValueError):
    """An argument is outside its documented range; the message names argument, value, remedy."""


class BudgetExceeded(RiemdpError):
    """A release would cost more than the ledger has left. Raised before anything is released;
    nothing was spent.
    """


class PrecisionError(RiemdpError):
    """64-bit floating point has been forbidden, and the guarantees here are not made in 32-bit
    arithmetic.
    """


class DataUnavailable(RiemdpError):
    """A data set is not on this machine and cannot be downloaded."""


class MissingExtra(RiemdpError, ImportError):
    """This part needs an optional package; the message names the extra that installs it."""


class RiemdpWarning(UserWarning):
    """Base class of the warnings of this library, so that they can be filtered by name."""


# A warning points to the first line of none of these: to the user's own.
_INSIDE = frozenset({"riemdp", "sklearn", "joblib", "contextlib"})


def warn(sentence: str, category: type[RiemdpWarning] = RiemdpWarning) -> None:
    """Warn of something, at the line of the program that called this library."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_within(frame, _INSIDE):
        frame = frame.f_back
    warnings.warn_explicit(
        sentence,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def is_within(frame: FrameType, packages: Container[str]) -> bool:
    """Whether what runs there is code of one of these packages."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in packages


def warn_with_release(sentence: str) -> None:
    """Say something of what is charged and drawn already. Where warnings are errors the release
    comes all the same, for it is paid: it says the sentence itself, printed and in its report.
    """
    with contextlib.suppress(RiemdpWarning):
        warn(sentence)


class ConvergenceWarning(RiemdpWarning):
    """An iteration stopped before it reached the stated tolerance."""


class NotPrivateWarning(RiemdpWarning):
    """The result must not be published as private (a seed was given, or private data decided
    something).
    """


class SlowSamplerWarning(RiemdpWarning):
    """An exact rejection sampler will need many tries; the message gives the expected number."""


class SpreadWarning(RiemdpWarning):
    """The data reach beyond the radius within which the Fréchet mean is known to be unique."""


def invalid(name: str, value: object, remedy: str) -> InvalidArgument:
    """The error for argument `name`: says what was given and what to give instead."""
    shown = _shown(value)
    if len(shown) > 80:
        shown = shown[:77] + "..."
    return InvalidArgument(f"argument `{name}` = {shown} is not usable: {remedy}")


def _shown(value: object) -> str:
    """A public argument as text. What may be records that were given in its place (arrays, tables,
    collections of anything but a few plain values) is shown by its form only.
    """
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple):
        kind = "a DataFrame" if type(value).__name__ == "DataFrame" else "an array"
        return f"{kind} of shape {shape}"
    if isinstance(value, list | tuple | set | frozenset | dict):
        items = [*value, *value.values()] if isinstance(value, dict) else list(value)
        plain = all(isinstance(x, str | int | float | None) for x in items)
        if not plain or len(items) > _FEW:
            return f"a {type(value).__name__} of {len(value)}"
    return repr(value)


_FEW = 4  # so many plain values are shown: a tuple (epsilon, delta), a dict of two metrics


HERMITIAN = (
    "for Hermitian matrices give real ones of twice the size, [[X.real, -X.imag], [X.imag, X.real]]"
)


def counted(n: int, one: str, many: str = "") -> str:
    """A number and what is counted: "1 record", "1,200 records"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def shape_hint(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], kind: str = "") -> str:
    """What to do about records of another shape, "" where nothing is obvious.

    Args:
        name: The argument's name.
        shape: The shape that was given, with the records along the first axis.
        wanted: The shape of one record.
        kind: The name of the type that was given.
    """
    array = f"{name}.to_numpy()" if kind == "DataFrame" else name
    if len(shape) != 2 or len(wanted) != 2:
        return ""
    width, (rows, columns) = shape[1], wanted
    whole = rows * columns
    if width == whole:
        return f"; for matrices written row by row give {array}.reshape(-1, {rows}, {columns})"
    if width == whole + 1:
        return (
            f"; if its first column is an index, leave that out: {array}[:, 1:].reshape(-1,"
            f" {rows}, {columns})"
        )
    if rows == columns and width == rows * (rows + 1) // 2:
        return (
            f"; for upper triangles fill both halves: full = numpy.zeros((len({name}), {rows},"
            f" {rows})); i, j = numpy.triu_indices({rows}); full[:, i, j] = full[:, j, i] = {array}"
        )
    return ""


def real(
    name: str,
    value: object,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
    remedy: str | None = None,
) -> float:
    """Check that a public scalar is a finite number in the stated range; return it as a float."""
    if _is_real(value) and not _is_bool(value):
        x = _as_float(value)
        outside = x <= above or x < at_least or x > at_most
        outside |= x >= below
        if math.isfinite(x) and not outside:
            return x
    wanted = remedy or _range_in_words(above, at_least, below, at_most)
    raise invalid(name, value, wanted)


# Squares of numbers in this range, and sums of them, neither underflow nor overflow in float64.
SMALLEST_MAGNITUDE, LARGEST_MAGNITUDE = 1e-100, 1e100


def magnitude(name: str, value: object, *, power: int = 1) -> float:
    """Check a public bound that lengths are compared with (a clip norm, a radius, a sensitivity).

    The square of a length below 1e-162 is 0 in float64, so a bound as small as that would clip
    nothing; noise below 1e-308 is 0.

    Args:
        name: The argument's name.
        value: A number above 0.
        power: The power of it that has to be in range.
    """
    x = real(name, value, above=0.0)
    low, high = SMALLEST_MAGNITUDE ** (1 / power), LARGEST_MAGNITUDE ** (1 / power)
    if not low <= x <= high:
        raise invalid(
            name,
            value,
            f"float64 does not clip reliably at bounds outside {low:.0e} to {high:.0e}; change the"
            " unit of the records",
        )
    return x


def integer(
    name: str,
    value: object,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    remedy: str | None = None,
) -> int:
    """Check that a public count is a whole number in the stated range, and return it as an int."""
    if isinstance(value, numbers.Integral) and not _is_bool(value):
        n = int(value)
        if n >= at_least and (at_most is None or n <= at_most):
            return n
    top = "" if at_most is None else f" and at most {at_most}"
    raise invalid(name, value, remedy or f"give a whole number that is at least {at_least}{top}")


def one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Check that a word is one of the documented ones."""
    if not isinstance(value, str) or value not in choices:
        raise invalid(name, value, "choose one of " + ", ".join(repr(c) for c in choices))
    return value


def truth(name: str, value: object) -> bool:
    """Check that an option is True or False."""
    if not _is_bool(value):
        raise invalid(name, value, "give True or False")
    return bool(value)


def _is_real(value: object) -> TypeGuard[SupportsFloat]:
    return isinstance(value, numbers.Real) or getattr(value, "shape", None) == ()


def _as_float(value: SupportsFloat) -> float:
    """The number as a float; NaN for an integer beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def _range_in_words(above: float, at_least: float, below: float, at_most: float) -> str:
    parts = []
    if above > -math.inf:
        parts.append(f"greater than {above:g}")
    if at_least > -math.inf:
        parts.append(f"at least {at_least:g}")
    if below < math.inf:
        parts.append(f"less than {below:g}")
    if at_most < math.inf:
        parts.append(f"at most {at_most:g}")
    return "give a finite real number" + (" that is " + " and ".join(parts) if parts else "")


def require_float64() -> None:
    """Switch JAX to 64 bits, or say clearly why that is not possible.

    Noise, sensitivities and geometry are computed in float64 throughout: in float32 a normal stops
    at 5.4 sigma, and a guarantee at delta = 1e-8 would not hold. JAX_ENABLE_X64=0 in the
    environment is read as the user's wish to forbid it. Where JAX is not imported yet, the
    variable that it reads on import is set, so that `import riemdp` does not have to import JAX.

    Raises:
        PrecisionError: the environment forbids 64 bits.
    """
    if os.environ.get("JAX_ENABLE_X64", "").strip().lower() in {"0", "false", "off", "no"}:
        raise PrecisionError(
            "JAX_ENABLE_X64 is set to a false value, but riemdp computes in float64 only (its"
            " privacy guarantees do not hold in float32). Unset JAX_ENABLE_X64, or set it to 1,"
            " before importing riemdp."
        )
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        os.environ["JAX_ENABLE_X64"] = "1"


IN_ORDER = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
LEAST_THREADS = 8


def require_order() -> None:
    """Have XLA run the operations of a compiled function one after another, with enough threads.

    Two decompositions of many matrices at once each wait for threads of one pool. On a machine of
    two cores the pool has two threads, and the function never ends. XLA reads both variables when
    it starts; a program that uses JAX before it imports riemdp must set them itself.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "concurrency_optimized_scheduler" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {IN_ORDER}".strip()
    if (os.cpu_count() or 1) < LEAST_THREADS:
        os.environ.setdefault("NPROC", str(LEAST_THREADS))


_COMPARING = ("static arguments should be comparable", "checking equality of metadata fields")


def raise_interrupt(error: BaseException) -> None:
    """Raise the `KeyboardInterrupt` that JAX has made this error of, if it has.

    JAX compares the static arguments of a program in Python. Of what is raised there, an interrupt
    too, it makes a ValueError, whose cause it is, or which names it, or which only says that a
    comparison failed: that one is raised as it is. No comparison of riemdp's fails, and none looks
    at records.
    """
    link: BaseException | None = error
    while link is not None:
        named = isinstance(link, ValueError) and "KeyboardInterrupt" in str(link)
        if named or isinstance(link, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        link = link.__cause__
    if isinstance(error, ValueError) and any(words in str(error) for words in _COMPARING):
        raise error


@contextlib.contextmanager
def interrupts() -> Iterator[None]:
    """Inside, and in a function that this decorates, what JAX makes of an interrupt is one."""
    try:
        yield
    except ValueError as error:
        raise_interrupt(error)
        raise


def check_float64() -> None:
    """Raise `PrecisionError` where JAX's 64 bits were switched off after riemdp was imported.

    Every charge calls this immediately before noise is drawn, so that nothing is released in
    float32 under a guarantee that was computed for float64.
    """
    jax = sys.modules.get("jax")  # nothing is in float32 while JAX is not imported
    if jax is not None and not jax.config.jax_enable_x64:
        raise PrecisionError(
            "JAX's 64-bit floating point was switched off after riemdp was imported; the privacy"
            " guarantees do not hold in float32. Switch it on again:"
            " jax.config.update('jax_enable_x64', True)"
        )
