"""What was noised, as a vector: the noisy vectors that a result publishes, or its value in normal
coordinates about a public point; with what is stated of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from riemdp import Ball, Release
from riemdp.federated import Answer

from . import data as d
from .entry import Data, Entry, Floats, numbers
from .outcomes import a_place, expected, valid
from .rows_of_estimators import Fitted
from .rows_of_loops import RATE
from .sources import ADDED, Draw, drawn_through, silent, zeros


def releases(result: Any) -> list[Release]:
    """The releases that a result is made of."""
    if not isinstance(result, Fitted):
        return [result] if isinstance(result, Release) else []
    held = getattr(result.model, "releases_", None)
    if held is None:
        held = [result.model.release_]
    every = list(held.values()) if isinstance(held, Mapping) else list(held)
    each = [one for found in every for one in (found if isinstance(found, tuple) else (found,))]
    return [one for one in each if isinstance(one, Release)]


def vector(entry: Entry, result: Any) -> Floats:
    """What the noise was added to, with it."""
    found = releases(result)
    if isinstance(getattr(result, "value", None), Ball):
        return _normal(np.asarray(result.value.center))
    if found and "answers" in found[0].details:
        return np.asarray(found[0].details["answers"][0])
    if entry.name == "riemdp.PrivatePGA":
        return np.concatenate([_coordinates(found[0]), numbers(found[1])])
    if entry.name == "riemdp.PrivateTLRotate":
        return np.concatenate([_normal(numbers(one)) for one in found])
    if entry.name == "riemdp.PrivateTSClassifier" and entry.moved is None:
        return _sums(entry, result)
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


def _sums(entry: Entry, result: Any) -> Floats:
    """The least change of a classifier's noisy sums that gives its coefficients, to first order:
    how each of the sums moves them is seen by planting a twentieth of a scale of noise in it.
    """
    at, slopes, size = _slopes(entry)
    return np.linalg.pinv(slopes, rcond=1e-6) @ (_coefficients(result) - at) * size


def _coefficients(result: Any) -> Floats:
    return np.concatenate([numbers(result.model.coef_), numbers(result.model.intercept_)])


@functools.cache
def _slopes(entry: Entry) -> tuple[Floats, Floats, float]:
    before, drawn = in_silence(entry, valid(entry))
    at, small = _coefficients(before), 0.05
    count = max(size for kind, size in drawn if kind in ADDED)
    number = max(i for i, (kind, size) in enumerate(drawn) if kind in ADDED and size == count)
    moved = [with_one_scale(entry, number, small, place) for place in range(count)]
    slopes = np.stack([(_coefficients(result) - at) / small for result in moved], axis=1)
    return at, slopes, scale(before)


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
def distributions(entry: Entry) -> tuple[tuple[str, int], ...]:
    """Which distributions a row draws from, each with how many numbers, in order."""
    expected(entry)  # what is computed once from public numbers is known from here on
    with a_place(entry) as given, drawn_through(sized) as draws:
        entry.call(valid(entry), given)
    return tuple((draw.kind, draw.size) for draw in draws)


def is_radial(entry: Entry) -> bool:
    """Whether the noise has a radius and a direction, which are drawn apart."""
    drawn = {kind for kind, size in distributions(entry) if size != d.PEOPLE * 16}
    return "normals" in drawn and bool(drawn & {"uniforms", "gammas"})


def without_noise(entry: Entry, data: Data) -> Any:
    """What a row would release without noise."""
    return in_silence(entry, data)[0]


def in_silence(entry: Entry, data: Data) -> tuple[Any, list[tuple[str, int]]]:
    """The same, and the distributions that it asked, each for how many numbers."""
    radial = is_radial(entry)

    def quiet(draw: Draw) -> Any:
        made = silent(draw, radial=radial)
        draw.size = int(np.size(made))
        return made

    with a_place(entry) as given, drawn_through(quiet) as draws:
        result = entry.call(data, given)
    return result, [(draw.kind, draw.size) for draw in draws]


def with_one_scale(entry: Entry, number: int, share: float = 1.0, place: int = 0) -> Any:
    """The same, with one scale of noise (or a share of it) in one coordinate of one draw."""

    def planted(draw: Draw) -> Any:
        if draw.number != number or draw.kind not in ADDED:
            return silent(draw)
        made = zeros(draw.made())
        size = share if draw.kind == "normals" else round(share * float(draw.given[0]))
        if not isinstance(made, np.ndarray):
            return type(made)(size)
        made[(...,) if made.ndim == 0 else np.unravel_index(place, made.shape)] = size
        return made

    with a_place(entry) as given, drawn_through(planted):
        return entry.call(valid(entry), given)


def scale(result: Any) -> float:
    """The stated scale of the noise in each coordinate, of the last part."""
    found = releases(result)
    if found:
        return float(found[-1].scale)
    if isinstance(result, Answer):
        assert result.sigma is not None
        return result.sigma
    told = result.details
    return float(told["noise_multiplier"] * told["sensitivity"])


def sensitivity(entry: Entry, result: Any) -> float:
    """How far one record (one person) may move the vector, from public numbers."""
    for name, bound in BOUNDS.items():
        if entry.id.startswith(name):
            return float(bound(result))
    if entry.moved is not None and not isinstance(result, Fitted):
        return float(entry.moved(result)[1])
    found = [one.sensitivity for one in releases(result)]
    return max(float(s) for s in found if s is not None)


def of_centre(result: Any, last: float = 1.0) -> float:
    """A ball is found, and then used: each of the noisy means on the way to its centre moves by the
    diameter of the ball in which it is taken over n, and so does the last one.
    """
    told = releases(result)[0].details
    return 2 * sum(told["radii"][:-1]) / told["n"] + last * 2 * told["radii"][-1] / told["n"]


def of_first_answer(result: Any) -> float:
    """With a public prior: the first noisy mean, in shaped coordinates."""
    told = releases(result)[0].details
    return 2 * told["radii"][0] / told["n"] * (1 + 1e-9)


def of_spread(result: Any) -> float:
    """A variance about a centre, which moves it by at most twice the radius times as far."""
    one = releases(result)[0]
    return float(one.sensitivity or 0.0) + 2 * one.details["radii"][-1] * of_centre(result, 0.0)


def of_steps(count: float) -> Callable[[Any], float]:
    """So many noisy steps, each of which moves by the rate times its sensitivity, and hardly more:
    a step of least squares takes points nearer.
    """
    return lambda result: 1.01 * RATE * count * result.details["sensitivity"]


def of_classes(result: Any) -> float:
    """A joint query of the sums of two classes of about n / 2 matrices: its sensitivity over the
    least number, and what the ball's centre moves by.
    """
    one = releases(result)[0]
    centre = of_centre(result, 0.0) if "radii" in one.details else 0.0
    return float(one.sensitivity or 0.0) / (0.45 * d.N) + centre


def of_moments(result: Any) -> float:
    """Second moments of rows of length at most sqrt(2), and what the ball's centre moves by."""
    one = releases(result)[0]
    return float(one.sensitivity or 0.0) + 2.5 * of_centre(result, 0.0) / one.details["ball"].radius


def of_turn(_: Any) -> float:
    """A projection onto a leading direction (see `moment` of the rows)."""
    return math.sqrt(2) * 2 * (math.sqrt(2) / d.N) / 0.5


def of_geodesics(result: Any) -> float:
    """A mean, and second moments (of a domain one number) about it: these move with the mean by at
    most twice the radius times as far.
    """
    mean, moments = releases(result)[:2]
    told = mean.details
    centre = 2 * sum(told["radii"][:-1]) / told["n"] if "radii" in told else 0.0
    moved = centre + float(mean.sensitivity or 0.0)
    return math.hypot(moved, float(moments.sensitivity or 0.0) + 2 * told["radius"] * moved)


RUN, SEARCH = "riemdp.private_minimize", "riemdp.federated.private_"
OVER_SITES = 2 * 2 * (0.75 + 0.5 + 0.5 + 0.5) / (2 * d.N)  # of the radii that a search can find
BOUNDS: dict[str, Callable[[Any], float]] = {
    # the mean of the entries is projected, from a length of at least cos r
    "riemdp.private_frechet_mean[extrinsic": lambda r: r.sensitivity / math.cos(d.CAP.radius),
    # the least value of the loss of one batch, in which the record always is
    "riemdp.private_frechet_mean[dp-rsgd]": lambda r: r.details["sensitivity"],
    "riemdp.private_frechet_variance[private ball]": of_spread,
    "riemdp.mechanisms.AdaptiveVariance": of_spread,
    # with a prior the noisy vector itself is published
    "riemdp.PrivateTSClassifier[prior": lambda r: float(releases(r)[0].sensitivity or 0.0),
    "riemdp.PrivateTSClassifier[people, prior": lambda r: float(releases(r)[0].sensitivity or 0.0),
    # the sums are seen to first order only
    "riemdp.PrivateTSClassifier": lambda r: 1.5 * float(releases(r)[0].sensitivity or 0.0),
    "riemdp.PrivateTSRegressor[private ball]": of_moments,
    "riemdp.private_geodesic_regression[private ball]": of_moments,
    "riemdp.private_frechet_mean[private ball": of_centre,
    "riemdp.private_frechet_mean[people, private ball": of_centre,
    "riemdp.private_ball": lambda result: of_centre(result, 0.0),
    "riemdp.mechanisms.PrivateBall": lambda result: of_centre(result, 0.0),
    "riemdp.mechanisms.AdaptiveMean": of_centre,
    "riemdp.mechanisms.WrappedGaussian.release[in a ball]": lambda _: 2 * float(d.BALL.radius),
    "riemdp.PrivateFrechetMean[private ball]": of_centre,
    "riemdp.PrivateFrechetMean[public prior": of_first_answer,
    "riemdp.PrivateTangentSpace[private ball]": of_centre,
    f"{RUN}[DP-RGD, two steps]": of_steps(2),
    f"{RUN}[DP-RGD, domain]": of_steps(2),
    f"{RUN}[DP-RGD, adaptive clip]": of_steps(9),
    f"{RUN}[DP-RGD, one of the iterates]": of_steps(2),
    f"{RUN}[DP-RSGD, Poisson, replace-one]": of_steps(4),
    f"{RUN}[DP-RSGD, Poisson": of_steps(4),  # of add-or-remove-one: one goes and one comes
    f"{RUN}[DP-RSGD, allocation]": of_steps(2),
    f"{RUN}[DP-RSGD]": of_steps(2),
    f"{RUN}[people, DP-RSGD]": of_steps(2),
    f"{RUN}[DP-RSVRG": lambda _: 1.01 * RATE * 2 * (2 / d.N + 2 / 20),
    f"{RUN}[principal": lambda result: math.sqrt(2) * of_steps(2)(result),
    "riemdp.optimizers.private_principal_eigenvector": of_turn,
    "riemdp.run_in_process[round-robin, batches]": lambda _: 1.01 * RATE * 2 * 2 / 20,
    f"{SEARCH}ball": lambda _: OVER_SITES,
    f"{SEARCH}frechet_mean": lambda _: OVER_SITES,
    "riemdp.PrivatePCA[private row norm]": of_turn,
    "riemdp.PrivatePCA[people, private row norm]": of_turn,
    "riemdp.PrivateMDM": of_classes,
    "riemdp.PrivatePGA": of_geodesics,
    "riemdp.PrivateTLScale[two domains]": of_geodesics,
    "riemdp.PrivateTLScale[people]": of_geodesics,
    # of two domains, each of two classes
    "riemdp.PrivateTLRotate": lambda result: float(releases(result)[0].sensitivity or 0.0) / 12,
    "riemdp.cli.main mean[private ball]": lambda _: 2 * OVER_SITES,
    "riemdp.cli.main mean": lambda _: 2 * float(d.BALL.radius) / d.N,
    "riemdp.cli.main pca": of_turn,
}
