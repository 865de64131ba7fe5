"""What a mechanism returns: the value that may be published, and everything public about how it was
made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from .._errors import InvalidArgument
from ._error_law import ErrorLaw

NOT_PRIVATE = "NOT PRIVATE: drawn with a seed; must not be published as private"


@dataclasses.dataclass(frozen=True, eq=False)
class Release:
    """A released value together with the guarantee it was released under.

    - `value`: the released point (or tangent vector), a float64 array of the manifold's shape; a
      tuple on a product.
    - `guarantee`: the `Guarantee` that was made with the noise.
    - `scale`: sigma of a Gaussian, or s of a Laplace or K-norm law, per orthonormal coordinate in
      the metric.
    - `mechanism`: its name. `reproducible`: True if the noise came from a seed; then nothing here
      is private.
    - `sensitivity`: the sensitivity that the scale was made from, for the neighbours of
      `guarantee.adjacency`.
    - `expected_error`: root of the expected squared Riemannian distance to the value before noise,
      where a formula exists (`details["error"]` says whether it is exact or an upper bound), else
      None; `error_quantile(q)` likewise.
    - `details`: further public facts.

    Holds no noise, no key and no record, so it can be pickled, printed and logged.
    """

    value: Any
    guarantee: Any
    scale: float
    mechanism: str
    reproducible: bool
    sensitivity: float | None = None
    error_law: ErrorLaw | None = None
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", MappingProxyType(dict(self.details)))

    @property
    def expected_error(self) -> float | None:
        """Root of the expected squared distance between the release and the value it protects; None
        without a formula.
        """
        return None if self.error_law is None else self.error_law.expected_error

    def error_quantile(self, q: float) -> float:
        """The distance to the protected value that is not exceeded with probability q (0 < q < 1)."""
        if self.error_law is None:
            raise InvalidArgument(
                f"no formula for the error of {self.mechanism!r} here; simulate it with public data"
                " and a seed"
            )
        return self.error_law.quantile(q)

    def __getstate__(self) -> dict[str, Any]:
        state = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        state["details"] = dict(self.details)
        state["value"] = _as_numpy(self.value)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        import jax.numpy as jnp

        for name, item in state.items():
            object.__setattr__(self, name, item)
        object.__setattr__(self, "details", MappingProxyType(dict(state["details"])))
        value = state["value"]
        as_jax = (
            tuple(_as_jax(v, jnp) for v in value)
            if isinstance(value, tuple)
            else _as_jax(value, jnp)
        )
        object.__setattr__(self, "value", as_jax)

    def __str__(self) -> str:
        lines = [
            f"Release of {_shape_in_words(self.value)} by {self.mechanism}",
            f"  guarantee: {self.guarantee}",
            f"  scale: {self.scale:.6g}",
        ]
        if self.sensitivity is not None:
            lines[-1] += f" (sensitivity {self.sensitivity:.6g})"
        if self.error_law is not None:
            lines.append(f"  expected error: {self.expected_error:.6g} ({self.error_law.kind})")
        if self.reproducible:
            lines.append(f"  {NOT_PRIVATE}")
        return "\n".join(lines)

    __repr__ = __str__


def _shape_in_words(value: Any) -> str:
    if isinstance(value, tuple):
        return "a tuple of (" + ", ".join(_shape_in_words(v) for v in value) + ")"
    return f"an array of shape {tuple(np.shape(value))}"


def _as_numpy(value: Any) -> Any:
    return tuple(_as_numpy(v) for v in value) if isinstance(value, tuple) else np.asarray(value)


def _as_jax(value: Any, jnp: Any) -> Any:
    return tuple(_as_jax(v, jnp) for v in value) if isinstance(value, tuple) else jnp.asarray(value)
