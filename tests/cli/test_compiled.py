"""Compiled code is kept in the user's folder, and nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.seam import Commands, plant

NAMES = ("JAX_COMPILATION_CACHE_DIR", *Commands.SETTINGS, Commands.SWITCH)


@pytest.fixture
def clean(monkeypatch, tmp_path):
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def kept(folder: Path) -> dict[str, bytes]:
    """Names and contents of the programs (what JAX notes about their use apart)."""
    files = [p for p in folder.rglob("*") if p.is_file() and not p.name.endswith("-atime")]
    return {p.name: p.read_bytes() for p in files}


def run(folder: Path, records: Path, *more: object) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in NAMES}
    environment["XDG_CACHE_HOME"] = str(folder)
    script = "import riemdp.cli, sys; sys.argv[0] = 'riemdp'; riemdp.cli.main()"
    words = ("mean", records, "--epsilon", 1, "--delta", 1e-6, "--radius", 1, *more)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, words)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_data_set_adds_no_program(tmp_path):
    """So no record is part of one: other records would make another program."""
    for name, scale in (("a", 1.0), ("b", 1.7)):
        rows = np.random.default_rng(int(10 * scale)).normal(size=(64, 3))
        np.save(tmp_path / f"{name}.npy", scale * rows)
    home, flat = tmp_path / "cache", ("--space", "euclidean")  # which compiles least
    run(home, tmp_path / "a.npy", *flat)
    assert not kept(home)  # a mechanism computes with NumPy
    flat = (*flat, "--mechanism", "dp-rgd")
    run(home, tmp_path / "a.npy", *flat)
    first = kept(home)
    assert len(first) > 5
    (folder,) = (home / "riemdp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    run(home, tmp_path / "b.npy", *flat)
    assert kept(home) == first


def test_a_folder_is_named_by_version_and_processor(clean, monkeypatch):
    Commands.keep_compiled()
    first = os.environ["JAX_COMPILATION_CACHE_DIR"]
    assert Path(first).is_dir()
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    plant(monkeypatch, "version of what is kept", "another")
    Commands.keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] != first


def test_a_folder_of_the_user_stays(clean, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    Commands.keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    assert not list(clean.iterdir())


def test_it_can_be_switched_off(clean, monkeypatch):
    monkeypatch.setenv(Commands.SWITCH, "off")
    Commands.keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ
    assert not list(clean.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="rights of files are told otherwise")
@pytest.mark.parametrize("rights", [0o777, 0o770, 0o755, 0o750])
def test_a_folder_that_others_reach_is_not_used(clean, rights):
    """Who can write there can have this process run code, who can read there sees shapes."""
    Commands.keep_compiled()
    folder = Path(os.environ.pop("JAX_COMPILATION_CACHE_DIR"))
    folder.chmod(rights)
    Commands.keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_is_not_followed(clean, tmp_path_factory):
    Commands.keep_compiled()
    folder = Path(os.environ.pop("JAX_COMPILATION_CACHE_DIR"))
    folder.rmdir()
    folder.symlink_to(tmp_path_factory.mktemp("elsewhere"), target_is_directory=True)
    Commands.keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_no_folder_is_no_error(clean, monkeypatch):
    (clean / "riemdp").write_text("a file where the folder should be")
    Commands.keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_it_does_not_grow_without_end(clean, monkeypatch):
    Commands.keep_compiled()
    folder = Path(os.environ.pop("JAX_COMPILATION_CACHE_DIR"))
    plant(monkeypatch, "size of what is kept", 1000)
    for age in range(12):
        path = folder / f"program-{age:02}"
        path.write_bytes(b"x" * 100)
        os.utime(path, (1e9 - age, 1e9 - age))
    Commands.keep_compiled()
    assert sorted(p.name for p in folder.iterdir()) == [f"program-{age:02}" for age in range(5)]
