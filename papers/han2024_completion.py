"""Han2024: low-rank matrix completion (figure 3b)."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from riemdp.manifolds import Grassmann
from riemdp.optimizers import DPRSGD
from riemdp.privacy import Budget, subsampled_gaussian, subsampled_gaussian_noise_multiplier
from riemdp.problems import matrix_completion

from ._old import repeated
from .data import movielens_1m
from .panels import Series, one_panel
from .registry import Context, Result, experiment
from .runs import spread
from .summaries import number, quartile_columns, quartiles, with_stand_in

DELTA = 1e-3


def synthetic_ratings(
    seed: int,
    users: int,
    films: int,
    rank: int = 5,
    share: float = 0.25,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Low-rank ratings centred at 0 (users, films), about [-2, 2], with masks for training and
    testing.
    """
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((users, rank)), rng.standard_normal((films, rank))
    ratings = np.clip(
        left @ right.T / math.sqrt(rank) + 0.25 * rng.standard_normal((users, films)), -2.0, 2.0
    )
    drawn = rng.random((users, films))
    return ratings, (drawn < share).astype(np.float64), (drawn > 1 - 0.5 * share).astype(np.float64)


@experiment(
    "han2024-figure-3b",
    "Low-rank matrix completion: error of the recommendations with and without noise",
)
def figure_3b(context: Context) -> Result:
    users, films, rank, eps = context.choose((600, 60, 5, 0.1), (6000, 300, 5, 0.1))
    load = functools.partial(_movielens, movielens_1m, context.seed, users, films)
    synthetic = functools.partial(synthetic_ratings, context.seed, users, films, rank)
    (ratings, seen, hidden), substituted = with_stand_in(
        load, synthetic, download=not context.quick
    )
    users, films = ratings.shape
    named = (
        f"synthetic low-rank ratings ({users} users, {films} films, rank {rank}, a quarter"
        " observed) in place of MovieLens-1M"
    )
    steps, batch, runs = 1000, 10, 20
    problem = matrix_completion(films, rank, ridge=1e-3)
    m = Grassmann(films, rank)
    data = (ratings * seen, seen)
    start = np.linalg.qr(np.random.default_rng(context.seed + 1).standard_normal((films, rank)))[0]
    stated = math.sqrt(1e4 * steps * math.log(1 / DELTA)) / (users * eps)
    norms = np.sort(_gradient_norms(problem, m, start, data))
    clip = 4.0  # public: a user with about 15 films rated within [-2, 2]
    budget = Budget(eps, DELTA)

    def run(
        steps: int, batch: int, rate: float, clip_norm: float, noise: float, seed: int
    ) -> np.ndarray:
        optimizer = DPRSGD(steps, batch, rate, clip_norm)
        return repeated(problem, data, start, optimizer, noise_std=noise, runs=runs, rng=seed)

    few, larger = 100, max(100, users // 4)
    certified: dict[str, float] = {}
    for e in (eps, 1.0):
        z = subsampled_gaussian_noise_multiplier(
            Budget(e, DELTA), population=users, batch_size=larger, steps=few
        )
        certified[f"DP-RSGD, certified, ε = {e:g}"] = z * 2 * clip / larger
    arms = {
        "start, no data used": start[None],
        "RSGD, published step 1e-5": run(steps, batch, 1e-5, 1e9, 0.0, 1),
        "DP-RSGD, published noise": run(steps, batch, 5e-6, 1e9, stated, 2),
        "RSGD, larger steps": run(few, larger, 0.1, 1e9, 0.0, 3),
        **{name: run(few, larger, 0.1, clip, sigma, 4) for name, sigma in certified.items()},
    }
    rows: list[dict[str, Any]] = []
    found: dict[str, np.ndarray] = {}
    for name, points in arms.items():
        errors = np.array([_completion_errors(w, ratings, seen, hidden) for w in points])
        found[name] = errors.T
        for split, column in zip(("train", "test"), errors.T, strict=True):
            row = {"method": name, "split": split, **quartile_columns(column, "rmse")}
            rows.append({**row, "runs": len(column)})
    labels = [_two_lines(name) for name in arms]
    bars = []
    for i, split in enumerate(("training entries", "test entries")):
        heights = zip(*(quartiles(found[name][i]) for name in arms), strict=True)
        bars.append(Series(split, labels, *heights, kind="bars"))
    title = f"{users} users, {films} films, rank {rank}" + (" (synthetic)" if substituted else "")
    levels = [("predict the mean", float(np.std(ratings[hidden > 0])))]
    error = "root mean squared error"
    figure = one_panel(bars, "", error, title, size=(11.0, 4.8), legend_columns=None, levels=levels)
    largest = float(norms[-1])
    spent = subsampled_gaussian(
        stated / (2 * largest / batch), population=users, batch_size=batch, steps=steps
    ).epsilon(DELTA)

    def words(name: str) -> str:
        return " / ".join(map(spread, found[name]))

    return Result(
        rows,
        figure,
        paper_shows=(
            "DP-RSGD reaches about the training and test error of RSGD on MovieLens-1M with T ="
            " 1000, batch 10."
        ),
        published=(
            f"Training / test RMSE (medians and quartiles of {runs} runs): at the public start"
            f" {words('start, no data used')}; RSGD with the published step 1e-5"
            f" {words('RSGD, published step 1e-5')}; DP-RSGD with sigma^2 = 1e4 T log(1/delta)/(n"
            f" eps)^2 {words('DP-RSGD, published noise')}. The three agree because neither leaves"
            " the start in 1000 such steps on ratings of this size; a larger step without noise"
            f" reaches {words('RSGD, larger steps')}."
        ),
        certified="With clipping, a batch of a quarter of the users and 100 steps: "
        + "; ".join(f"{name.split(', ')[-1]}: {words(name)}" for name in certified)
        + ". A whole user is protected.",
        true_epsilon=(
            "Without clipping the published noise has no finite epsilon, since no Lipschitz"
            f" constant enters it. With the largest gradient at the start ({number(largest)}) taken"
            f" as a bound it would cost {number(spent)} at delta = 1e-3 ({eps:g} stated, as in the"
            " paper's other experiments)."
        ),
        data=(
            named
            if substituted
            else f"MovieLens-1M, the first {users} users and {films} films, ratings minus 3"
        ),
        stand_in=substituted,
        facts={
            "stated_sigma": stated,
            "largest_gradient": largest,
            "true_epsilon_if_bounded": spent,
            "budget": str(budget),
        },
    )


def _movielens(
    load: Any, seed: int, users: int, films: int, *, download: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ratings minus 3 (a public constant) of the first users and films, with a tenth of the known
    ones hidden for testing.
    """
    values, known = load(download=download).matrix()
    values, known = (
        np.asarray(values)[:users, :films],
        np.asarray(known, dtype=np.float64)[:users, :films],
    )
    held = np.random.default_rng(seed).random(known.shape) < 0.1
    return (values - 3.0) * known, known * ~held, known * held


def _two_lines(name: str) -> str:
    head, _, tail = name.partition(", ")
    return f"{head}\n{tail}"


def _gradient_norms(problem: Any, manifold: Any, w: np.ndarray, data: Any) -> np.ndarray:
    gradients = jax.vmap(problem.riemannian_gradient, (None, 0))(w, data)
    return np.asarray(manifold.norm(w, gradients))


def _completion_errors(
    w: np.ndarray, ratings: np.ndarray, seen: np.ndarray, hidden: np.ndarray
) -> tuple[float, float]:
    """RMSE on seen and on hidden entries; every user's own coefficients are fitted to the seen ones
    (ridge 0.1).
    """
    gram = np.einsum("uf,fr,fs->urs", seen, w, w) + 0.1 * np.eye(w.shape[1])
    coefficients = np.linalg.solve(gram, ((ratings * seen) @ w)[..., None])[..., 0]
    squares = (ratings - coefficients @ w.T) ** 2
    return tuple(float(np.sqrt(np.sum(squares * mask) / np.sum(mask))) for mask in (seen, hidden))  # type: ignore[return-value]
