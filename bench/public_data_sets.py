"""The data of `bench.public_data`: records, and how they are split into private and public ones.

Constants of the library were set on MNIST, ERP and SSVEP (`riemdp.statistics._prior_constants`).
The others are kept for judging: nothing was chosen by looking at a figure that they give. Two
packages are read for the files that they ship, and not imported:

    pip install --no-deps geomstats==2.8.0 aeon==1.6.0
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import riemdp
from papers.data import data_folder, digits, erp_covariances, kmnist, mnist, pathmnist
from papers.data.records import Images
from papers.tools.classifier_table import reduced

SPLITS = 20
DIGIT_RECORDS = 592
OF_ONE = 150  # private records of one class, of digits that are kept
UTTERANCES = 50  # private ones of one speaker
WINDOW = 200  # samples of electromyography that make one covariance
OWN_SHARE = 0.1  # of the identity, in matrices that may be singular: of speech and connectomes


@dataclasses.dataclass(frozen=True)
class Split:
    """Private records, and public ones of the same kind.

    Attributes:
        X: The private records.
        public: The public ones.
        people: Whose these are, None for one person.
    """

    X: np.ndarray
    public: np.ndarray
    people: np.ndarray | None


def orders(length: int) -> Iterator[tuple[int, np.ndarray]]:
    """The number of each split, and a random order for it."""
    for seed in range(SPLITS):
        yield seed, np.random.default_rng(seed).permutation(length)


# ------------------------------------------------------------------ what constants were set on
@functools.cache
def descriptors(each: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Covariance descriptors of MNIST: all of digit 0, and so many of each other digit; digits."""
    images = mnist("train", download=False)
    rng, of = np.random.default_rng(0), [np.flatnonzero(images.labels == k) for k in range(10)]
    rows = np.concatenate([of[0], *(rng.permutation(own)[:each] for own in of[1:])])
    X = riemdp.datasets.covariance_descriptors(images.images[rows], eta=1e-6)
    return np.asarray(X), images.labels[rows]


def of_digits() -> Iterator[Split]:
    """Digit 0 private; 1 to 9 public, each of them as one person."""
    X, digit = descriptors()
    zeros, others = X[digit == 0], digit > 0
    for _, order in orders(len(zeros)):
        yield Split(zeros[order[:DIGIT_RECORDS]], X[others], digit[others])


def of_erp(channels: int, copies: int = 1) -> Iterator[Split]:
    """One half of the trials private, each so many times; the other half public."""
    X = reduced(erp_covariances(download=False).matrices, channels)
    for _, order in orders(len(X)):
        private, public = np.split(order, 2)
        yield Split(X[np.tile(private, copies)], X[public], None)


def ssvep(name: str = "X24") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records, classes and people of the SSVEP data."""
    with np.load(Path(str(data_folder())) / "ssvep" / "ssvep.npz") as held:
        return held[name], held["y"], held["person"]


def of_ssvep() -> Iterator[Split]:
    """Four people private, four public."""
    X, _, person = ssvep()
    for seed in range(SPLITS):
        names = np.random.default_rng(seed).permutation(np.unique(person))
        private, public = np.isin(person, names[:4]), np.isin(person, names[4:])
        yield Split(X[private], X[public], person[public])


# ------------------------------------------------------------------ one public person
@functools.cache
def electromyography() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances (8 x 8) of windows in which one of two people holds a sign of the hand: records,
    four signs and people.
    """
    path = _shipped("geomstats", "emg/emg.csv")
    table = functools.partial(np.loadtxt, path, delimiter=",", skiprows=1)
    samples, said = table(usecols=range(1, 9)), table(usecols=(9, 10), dtype=str)
    changes = np.flatnonzero(np.any(said[1:] != said[:-1], axis=1)) + 1
    X, y, person = [], [], []
    for part in np.split(np.arange(len(said)), changes):
        sign, session = said[part[0]]
        for first in range(0, 0 if sign == "rest" else len(part) - WINDOW + 1, WINDOW):
            X.append(np.cov(samples[part[first : first + WINDOW]].T))
            y.append(sign)
            person.append(session.split("_")[0])
    return np.stack(X), np.array(y), np.array(person)


def of_electromyography(n: int) -> Iterator[Split]:
    """So many records of one person private; the other one public."""
    X, _, person = electromyography()
    names = np.unique(person)
    for seed in range(SPLITS):
        own = np.flatnonzero(person == names[seed % 2])
        chosen = np.random.default_rng(seed).permutation(own)[:n]
        yield Split(X[chosen], X[person != names[seed % 2]], None)


# ------------------------------------------------------------------ kept for judging
Labelled = tuple[np.ndarray, np.ndarray]


@functools.cache
def _of_images(load: Callable[[], Images], each: int = 600) -> Labelled:
    images = load()
    labels = np.asarray(images.labels)
    rng, own = np.random.default_rng(0), [np.flatnonzero(labels == k) for k in np.unique(labels)]
    rows = np.concatenate([rng.permutation(one)[:each] for one in own])
    return np.asarray(riemdp.datasets.covariance_descriptors(images.images[rows])), labels[rows]


def small_digits() -> Labelled:
    """Descriptors of scikit-learn's digits, and digits."""
    return _of_images(digits)


def kuzushiji() -> Labelled:
    """Descriptors of KMNIST, and characters."""
    return _of_images(functools.partial(kmnist, download=False))


def histology() -> Labelled:
    """Descriptors of PathMNIST, and tissues."""
    return _of_images(functools.partial(pathmnist, download=False))


@functools.cache
def speech() -> Labelled:
    """Covariances (12 x 12) of the coefficients of 640 utterances, and speakers 1 to 9."""
    X, speaker = [], []
    for part in ("TRAIN", "TEST"):
        path = _shipped("aeon", f"JapaneseVowels/JapaneseVowels_{part}.ts")
        said = path.read_text(encoding="utf-8").split("@data")[1].split()
        for *channels, label in (line.split(":") for line in said):
            series = np.array([channel.split(",") for channel in channels], dtype=np.float64)
            X.append(np.cov(series))
            speaker.append(int(label))
    found = np.stack(X)
    size = np.trace(found, axis1=1, axis2=2)[:, None, None] / 12.0
    return found + OWN_SHARE * size * np.eye(12), np.array(speaker)


@functools.cache
def connectomes() -> Labelled:
    """Correlations (28 x 28) of regions of the brain of 86 people, and who is a patient."""
    folder = "connectomes/train_"
    values, labels = (
        np.loadtxt(_shipped("geomstats", f"{folder}{name}.csv"), delimiter=",", skiprows=1)
        for name in ("FNC", "labels")
    )
    X = np.tile(np.eye(28), (len(values), 1, 1))
    rows, columns = np.triu_indices(28, 1)
    X[:, rows, columns] = X[:, columns, rows] = values[:, 1:]
    return (1.0 - OWN_SHARE) * X + OWN_SHARE * np.eye(28), labels[:, 1].astype(np.int64)


def of_classes(load: Callable[[], Labelled], n: int) -> Iterator[Split]:
    """So many records of one class private, of each class in turn; the other classes public, each
    as one person.
    """
    X, label = load()
    names = np.unique(label)
    for seed in range(SPLITS):
        private = label == names[seed % len(names)]
        chosen = np.random.default_rng(seed).permutation(np.flatnonzero(private))[:n]
        yield Split(X[chosen], X[~private], label[~private])


def of_connectomes(n: int) -> Iterator[Split]:
    """So many people private, 36 public, one record each."""
    X, _ = connectomes()
    for _, order in orders(len(X)):
        yield Split(X[order[:n]], X[order[-36:]], None)


def _shipped(package: str, name: str) -> Path:
    """A file that a package ships, found without importing it."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / "datasets" / "data" / name
        if path.is_file():
            return path
    raise riemdp.DataUnavailable(
        f"{package} with its file {name} is not installed: pip install --no-deps {package}"
    )
