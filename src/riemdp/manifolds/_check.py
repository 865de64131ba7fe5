"""`check`: the property tests of the library, on any manifold, with a readable report."""

from __future__ import annotations

import dataclasses
import math
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

from .._errors import InvalidArgument, integer, invalid, real
from . import _properties_of_derivatives  # noqa: F401  (it adds its own to the table)
from ._base import AbstractManifold, Point
from ._properties import PROPERTIES
from ._sample import Sample, arguments_of, draw_sample, inputs_of


@dataclasses.dataclass(frozen=True)
class PropertyResult:
    """One property of a `CheckReport`.

    Attributes:
        name: The name of the property.
        meaning: The property in words.
        error: The worst error over the sample. None where the manifold does not offer an operation
            that the property needs (`note` says which), infinite where an operation raised an
            exception (`note` shows it).
        tolerance: The largest error that is accepted.
        passed: Whether the error is at most the tolerance, or the property was skipped.
        note: Why the property was skipped or failed: the operation that is not offered, the
            exception, or by how much the error exceeds the tolerance. Empty where it holds.
    """

    name: str
    meaning: str
    error: float | None
    tolerance: float
    passed: bool
    note: str = ""


@dataclasses.dataclass(frozen=True)
class CheckReport:
    """What `check` found. `str(report)` is a table of the properties with their worst errors, and
    `report["name"]` is one row of it.

    Attributes:
        manifold: The `repr` of the manifold.
        rows: One `PropertyResult` a property.
        not_offered: The operations that raise `NotImplementedError`.
    """

    manifold: str
    rows: tuple[PropertyResult, ...]
    not_offered: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every property that could be checked held."""
        return all(row.passed for row in self.rows)

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the properties that do not hold."""
        return tuple(row.name for row in self.rows if not row.passed)

    def __getitem__(self, name: str) -> PropertyResult:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=8)
        head = f"{self.manifold}: " + (
            "all properties hold" if self.ok else f"FAILED: {', '.join(self.failures)}"
        )
        lines = [head, f"  {'property':<{width}}  {'worst error':>11}  {'tolerance':>9}  result"]
        for row in self.rows:
            error = "-" if row.error is None else f"{row.error:.1e}"
            result = (
                "ok"
                if row.passed and row.error is not None
                else "skipped"
                if row.passed
                else "FAILED"
            )
            told = [row.note] if row.passed else [row.meaning, row.note]
            why = "; ".join(words for words in told if words)
            lines.append(
                f"  {row.name:<{width}}  {error:>11}  {row.tolerance:>9.0e} "
                f" {result}{': ' + why if why else ''}"
            )
        if self.not_offered:
            lines.append(f"  operations not offered: {', '.join(self.not_offered)}")
        return "\n".join(lines)


def check(
    manifold: AbstractManifold,
    *,
    key: int = 0,
    samples: int = 5,
    radius: float | None = None,
    points: Point | None = None,
    tolerances: Mapping[str, float] | None = None,
    properties: Iterable[str] | None = None,
) -> CheckReport:
    """Run the property tests of this library on a manifold, one of its own or yours.

    The properties are relations that must hold on every Riemannian manifold (exp and log are
    inverse, transport is an isometry and continuous, the noise is isotropic, the volume density is
    the Jacobian of exp, ...), so no reference values are needed. Derivatives are compared with
    finite differences, transport with a pole ladder of short geodesics. Nothing is raised for a
    property that fails: `assert report.ok, report`.

    Args:
        manifold: An instance of any subclass of `AbstractManifold`.
        key: Seed of the random points and vectors, a whole number of at least 0. The same key gives
            the same report.
        samples: Number of random base points, at least 2.
        radius: Largest Riemannian norm of the tangent vectors that are drawn, above 0. Default:
            0.45 times the injectivity radius at each point, at most 1. Give a larger one to test
            far vectors, a smaller one if exp is only defined nearby.
        points: Your own base points, shape (samples, *shape), instead of `random_point`.
        tolerances: Tolerances by the name of the property, which replace the default ones.
        properties: Names of the properties to run. Default: all; the rows of a report list them.

    Returns:
        A `CheckReport` with `ok`, `failures`, `rows` (name, error, tolerance, passed) and
        `not_offered`, the operations that raise `NotImplementedError`. Properties that need one of
        those are skipped, and their row says so.

    Raises:
        InvalidArgument: A property of that name does not exist, or an argument is out of range.

    Examples:
        >>> import riemdp
        >>> names = ["points_belong", "frame_is_orthonormal"]
        >>> report = riemdp.manifolds.check(riemdp.Sphere(3), properties=names)
        >>> report.ok, report["points_belong"].passed
        (True, True)
    """
    if not isinstance(manifold, AbstractManifold):
        raise invalid(
            "manifold",
            manifold,
            "give an instance of a subclass of riemdp.manifolds.AbstractManifold",
        )
    key, samples = integer("key", key, at_least=0), integer("samples", samples, at_least=2)
    if radius is not None:
        radius = real("radius", radius, above=0.0)
    chosen = list(PROPERTIES) if properties is None else list(properties)
    held_to = dict(tolerances or {})
    for argument, names in (("properties", chosen), ("tolerances", list(held_to))):
        for name in names:
            if name not in PROPERTIES:
                raise InvalidArgument(
                    f"argument `{argument}` names {name!r}; choose from {', '.join(PROPERTIES)}"
                )

    try:
        sample = draw_sample(manifold, key=key, samples=samples, radius=radius, points=points)
    except Exception as error:
        row = PropertyResult(
            "drawing_points",
            "random_point, exp and from_coordinates work",
            math.inf,
            0.0,
            False,
            _shown(error),
        )
        return CheckReport(repr(manifold), (row,), ())
    rows = tuple(_run(manifold, sample, name, held_to) for name in chosen)
    return CheckReport(repr(manifold), rows, _not_offered(manifold, sample))


def _run(
    manifold: AbstractManifold, sample: Sample, name: str, held_to: Mapping[str, float]
) -> PropertyResult:
    prop = PROPERTIES[name]
    tolerance = held_to.get(name, prop.tolerance)
    try:
        error = float(prop.error(manifold, sample))
    except NotImplementedError as missing:
        return PropertyResult(
            name, prop.meaning, None, tolerance, True, str(missing) or _shown(missing)
        )
    except Exception as raised:  # a user's formula may fail in any way; the report says so
        return PropertyResult(name, prop.meaning, math.inf, tolerance, False, _shown(raised))
    if error <= tolerance:  # a NaN error does not pass
        return PropertyResult(name, prop.meaning, error, tolerance, True)
    note = f"the worst error, {error:.1e}, exceeds the tolerance"
    if math.isnan(error):
        note = "an operation gives NaN"
    return PropertyResult(name, prop.meaning, error, tolerance, False, note)


def _not_offered(manifold: AbstractManifold, sample: Sample) -> tuple[str, ...]:
    import jax

    missing = []
    for name, arguments in arguments_of(*inputs_of(manifold, sample)).items():
        try:
            jax.eval_shape(getattr(manifold, "_" + name), *arguments)
        except NotImplementedError:
            missing.append(name)
        except Exception:  # a broken formula is reported by its property, not here
            continue
    return tuple(missing)


def _shown(error: Exception) -> str:
    """An exception in one line: its first words, or where it was raised if it has none."""
    words = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if not words:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        words = f"raised in {frame.name}, line {frame.lineno} of {Path(frame.filename).name}"
    text = f"{type(error).__name__}: {words}"
    return text if len(text) <= 160 else text[:157] + "..."
