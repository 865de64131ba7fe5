"""What was noised, as a vector: the noisy vectors that a result publishes, or its value in normal
coordinates about a public point; with what is stated of it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from riemdp import Ball, NoiseSource, Release

from . import data as d
from .entry import Data, Entry, Floats, numbers
from .outcomes import SEED, a_place, expected, valid
from .rows_of_estimators import Fitted
from .sources import ADDED, Draw, drawn_through, silent, zeros


def releases(result: Any) -> list[Release]:
    """The releases that a result is made of."""
    if not isinstance(result, Fitted):
        return [result] if isinstance(result, Release) else []
    held = getattr(result.model, "releases_", None)
    if held is None:
        held = [result.model.release_]
    every = list(held.values()) if isinstance(held, Mapping) else list(held)
    return [one for one in every if isinstance(one, Release)]


def vector(entry: Entry, result: Any) -> Floats:
    """What the noise was added to, with it."""
    found = releases(result)
    if isinstance(getattr(result, "value", None), Ball):
        return _normal(np.asarray(result.value.center))
    if found and all(one.observation is not None for one in found):
        return np.concatenate([_coordinates(one) for one in found])
    if entry.moved is not None:
        return np.asarray(entry.moved(result)[0], dtype=np.float64).ravel()
    flat = numbers(result)
    if "xtrinsic" in entry.id or "Tangent" in entry.name:
        return flat  # noise was added to the entries
    if _is_direction(result):
        return np.outer(flat[:3], flat[:3]).ravel()
    return _normal(flat) if flat.size % 4 == 0 else flat


def _coordinates(one: Release) -> Floats:
    """The noisy vector of a release; where it is about the released point itself, that point."""
    assert one.observation is not None
    found = np.asarray(one.observation.coordinates, dtype=np.float64).ravel()
    return found if np.any(found) or np.size(one.value) != 4 else _normal(np.asarray(one.value))


def _normal(flat: Floats) -> Floats:
    """Matrices in normal coordinates about the identity, where no distance grows."""
    start = np.eye(2)
    points = np.asarray(flat).reshape(-1, 2, 2)
    logs = [d.SPD.to_coordinates(start, d.SPD.log(start, point)) for point in points]
    return np.concatenate([np.asarray(y) for y in logs])


def _is_direction(result: Any) -> bool:
    model = getattr(result, "model", None)
    if model is not None:
        return hasattr(model, "components_")
    return np.shape(getattr(result, "value", None)) in ((3,), (3, 1), (1, 3))


def sized(draw: Draw) -> Any:
    """What is drawn; the draw knows how many numbers that is."""
    made = draw.made()
    draw.size = int(np.size(made))
    return made


@functools.cache
def laws(entry: Entry) -> tuple[tuple[str, int], ...]:
    """Which laws a row draws from, each with how many numbers, in order."""
    expected(entry)  # what is computed once from public numbers is known from here on
    with a_place(entry, rng=NoiseSource(SEED) if entry.seeded else SEED) as given:
        with drawn_through(sized) as draws:
            entry.call(valid(entry), given)
        made = [draw for draw in draws if not entry.seeded or draw.source is given.rng]
    return tuple((draw.law, draw.size) for draw in made)


def is_radial(entry: Entry) -> bool:
    """Whether the noise has a radius and a direction, which are drawn apart."""
    drawn = {law for law, size in laws(entry) if size != d.PEOPLE * 16}
    return "normals" in drawn and bool(drawn & {"uniforms", "gammas"})


def without_noise(entry: Entry, data: Data) -> Any:
    """What a row would release without noise."""
    radial = is_radial(entry)
    with a_place(entry) as given, drawn_through(lambda draw: silent(draw, radial=radial)):
        return entry.call(data, given)


def with_one_scale(entry: Entry, number: int, share: float = 1.0) -> Any:
    """The same, with one scale of noise (or a share of it) in the first coordinate of one draw."""

    def planted(draw: Draw) -> Any:
        if draw.number != number or draw.law not in ADDED:
            return silent(draw)
        made = zeros(draw.made())
        size = share if draw.law == "normals" else round(share * float(draw.given[0]))
        if not isinstance(made, np.ndarray) or made.ndim == 0:
            return type(made)(size)
        made.flat[0] = size
        return made

    with a_place(entry) as given, drawn_through(planted):
        return entry.call(valid(entry), given)


def scale(result: Any) -> float:
    """The stated scale of the noise in each coordinate, of the last part."""
    found = releases(result)
    if found:
        return float(found[-1].scale)
    told = result.details
    return float(told["noise_multiplier"] * told["sensitivity"])


def sensitivity(entry: Entry, result: Any) -> float:
    """How far one record (one person) may move the vector: the row's own bound, or what the
    release states.
    """
    if entry.bound is not None:
        return float(entry.bound(result))
    if entry.moved is not None and not isinstance(result, Fitted):
        return float(entry.moved(result)[1])
    found = [one.sensitivity for one in releases(result)]
    return max(float(s) for s in found if s is not None)
