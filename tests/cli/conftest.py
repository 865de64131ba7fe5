"""Runs the command line in this process; gives exit code, standard output and standard error."""

from __future__ import annotations

import dataclasses
import shlex
import signal

import numpy as np
import pytest

from riemdp.cli import main

# a mean, and components, of the records that these tests make
MEAN = "--radius 2 --epsilon 1 --delta 1e-6 --metric log-euclidean"
PCA = "--components 1 --row-norm 1 --epsilon 1 --delta 1e-6"


@dataclasses.dataclass
class Run:
    code: int
    out: str
    err: str


@pytest.fixture
def riemdp(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: object) -> Run:
        """A text holds several words, as at a terminal; a path is one."""
        words = [shlex.split(a) if isinstance(a, str) else [str(a)] for a in arguments]
        capsys.readouterr()
        try:
            main([word for some in words for word in some])
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    return call


def spd_records(n: int = 60, k: int = 3, seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(n, k, 20))
    return a @ a.transpose(0, 2, 1) / 20


@pytest.fixture
def scans(tmp_path):
    """A folder to work in with `scans.npy`: 60 positive definite 3 x 3 matrices."""
    np.save(tmp_path / "scans.npy", spd_records())
    return tmp_path / "scans.npy"


@pytest.fixture(autouse=True)
def _interrupts_are_heard():
    """Ctrl-C as at a terminal: a job started in the background inherits that SIGINT is ignored, and
    so would these tests.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
