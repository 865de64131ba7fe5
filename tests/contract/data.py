"""Small valid data: one shape for each space, so that programs are compiled once."""

from __future__ import annotations

import threading

import numpy as np

import riemdp

_WRITING = threading.Lock()  # calls in two threads share a folder
N = 60
PEOPLE = 60
SPD = riemdp.SPDAffineInvariant(2)
SPHERE = riemdp.Sphere(3)
LINES = riemdp.Grassmann(3, 1)
FLAT = riemdp.Euclidean(3)
BALL = riemdp.Ball(np.eye(2), 1.0)
SHAPES = riemdp.KendallShapes(4)
CAP = riemdp.Ball(SPHERE.origin, 0.5)
CUBE = riemdp.Ball(np.zeros(3), 1.0)
SEARCH = riemdp.AdaptiveBall(riemdp.Ball(np.eye(2), 1.0))


def saved(path, array):
    """The path of a file with this array, written once."""
    with _WRITING:
        if not path.exists():
            np.save(path, np.asarray(array))
    return path


def _short(seed, n=N, size=0.6):
    """Vectors of three numbers, none longer than `size`."""
    y = np.random.default_rng(seed).normal(size=(n, 3)) * 0.2
    return y * np.minimum(1.0, size / np.linalg.norm(y, axis=1))[:, None]


def matrices(seed, n=N):
    """Positive definite matrices within .6 of the identity."""
    y = _short(seed, n)
    x = np.empty((n, 2, 2))
    x[:, 0, 0], x[:, 1, 1] = y[:, 0], y[:, 1]
    x[:, 0, 1] = x[:, 1, 0] = y[:, 2] / np.sqrt(2)
    values, vectors = np.linalg.eigh(x)
    return (vectors * np.exp(values)[:, None, :]) @ vectors.transpose(0, 2, 1)


PRIOR = riemdp.PublicPrior(SPD, matrices(7, 200), people=np.arange(200) % 4)
CLASS_PRIOR = riemdp.PublicPrior(
    SPD, matrices(8, 200), np.arange(200) % 2, people=np.arange(200) // 2 % 4
)


def directions(seed, n=N):
    """Unit vectors about the origin of the sphere."""
    origin = np.asarray(SPHERE.origin)
    y = _short(seed, n, 0.3)
    x = origin + y - (y @ origin)[:, None] * origin
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def shape_at(y):
    """The shape at tangent vectors of these coordinates at the origin."""
    origin = SHAPES.origin
    return SHAPES.exp(origin, SHAPES.from_coordinates(origin, y))


def outlines(seed, n=N):
    """Shapes of four landmarks within .8 of the square."""
    return shape_at(np.random.default_rng(seed).uniform(-0.4, 0.4, (n, SHAPES.dim)))


def axes(seed, n=N):
    """The same as axes: points of `LINES`."""
    return directions(seed, n)[:, :, None]


def rows(seed, n=N):
    """Rows of length at most 1, most of it along the first axis."""
    y = _short(seed, n, 0.3)
    signs = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    x = y + np.array([0.9, 0.0, 0.0]) * signs[:, None]
    return x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]


def short_rows(seed, n=N):
    """Vectors of length at most .6."""
    return _short(seed, n)


def whose(n=N, people=PEOPLE):
    """Labels of people: the first has the first four records, the others few."""
    labels = np.arange(n) - 3
    labels[:4] = 0
    return np.minimum(labels, people - 1)


def of_people(make):
    """Data of `PEOPLE` people, the first with four records."""

    def made(seed):
        return {"X": make(seed, PEOPLE + 3), "groups": whose(PEOPLE + 3)}

    return made


def plain(make):
    """Data of n records."""
    return lambda seed: {"X": make(seed)}


def two_sites(make):
    """The data of two sites."""
    return lambda seed: {"X": [make(seed), make(seed + 100)]}


def two_sites_of_people(make):
    """The data of two sites, with the people's labels."""

    def made(seed):
        X = [make(seed, PEOPLE + 3), make(seed + 100, PEOPLE + 3)]
        return {"X": X, "groups": [whose(PEOPLE + 3), whose(PEOPLE + 3)]}

    return made


def of_samples(make):
    """Records of two samples."""
    return lambda seed: {"X": make(seed), "samples": np.arange(N) % 2}


def people_of_samples(make):
    """Records of people, each of whom is in one of two samples."""

    def made(seed):
        groups = whose(PEOPLE + 3)
        return {"X": make(seed, PEOPLE + 3), "groups": groups, "samples": groups % 2}

    return made


def labelled(make):
    """Records of two classes."""
    return lambda seed: {"X": make(seed), "y": np.arange(N) % 2}


def labelled_people(make):
    """Records of people, of two classes."""

    def made(seed):
        n = PEOPLE + 3
        return {"X": make(seed, n), "y": np.arange(n) % 2, "groups": whose(n)}

    return made


def targeted(make):
    """Records with a number each."""
    return lambda seed: {"X": make(seed), "y": 1.0 - 1.5 * (np.arange(N) % 2)}


def targeted_people(make):
    """Records of people, with a number each."""

    def made(seed):
        n = PEOPLE + 3
        y = 1.0 - 1.5 * (np.arange(n) % 2)
        y[:4] = 1.0
        return {"X": make(seed, n), "y": y, "groups": whose(n)}

    return made


def with_covariates(made):
    """The same, the numbers as covariates."""

    def renamed(seed):
        data = made(seed)
        return {("t" if name == "y" else name): held for name, held in data.items()}

    return renamed
