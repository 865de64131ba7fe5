"""Attacks of the third look on files, parts of records and labels: faults 71 to 74."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import riemdp
from riemdp import Ball, InvalidArgument, private_frechet_mean
from riemdp.privacy import Budget, BudgetExceeded, Ledger, pure
from tests.programs import compiled_apart
from tests.seam import Doors, Gradients, Sums, original, plant

# ------------------------------------------------------------------------- 71: a lock that is lost
# Spends the whole budget, and stops before the k-th call of the operating system until it is told.
_SPENDER = """
import sys
from riemdp.privacy import Budget, Ledger, pure
CALLS = {"open", "flock", "fstat", "stat", "lstat", "fsync", "replace", "write", "unlink", "close"}
say = lambda word: print(word, flush=True)
say("ready")
while (line := sys.stdin.readline()):
    path, stop, made = line.split("|")
    left = int(stop)
    def watch(frame, event, what):
        global left
        if event == "c_call" and what.__name__ in CALLS:
            left -= 1
            if left == 0:
                say("stopped")
                sys.stdin.readline()
    try:
        if int(made):
            book = Ledger(Budget(1.0), path=path)
        sys.setprofile(watch)
        if not int(made):
            book = Ledger(Budget(1.0), path=path)
        book.spend(pure(1.0))
        word = "granted"
    except Exception as error:
        word = "refused"
    sys.setprofile(None)
    say(word)
"""


@pytest.fixture
def spender():
    process = subprocess.Popen(
        [sys.executable, "-c", _SPENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    def say(line: str = "") -> str:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    yield say
    process.stdin.close()
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows deletes no file that is open")
@pytest.mark.parametrize("made", [True, False], ids=["ledger", "new-ledger"])
def test_fault_71_nothing_deleted_beside_a_ledger_lets_anybody_in(
    spender, tmp_path: Path, made: bool
) -> None:
    """Another process spends the budget of 1; at every call that it makes, in turn, all files
    beside the ledger are deleted, and this process tries to spend the 1, too.
    """
    granted, stop, word = [], 0, "stopped"
    while word == "stopped":
        stop += 1
        path = tmp_path / f"ledger-{stop}.json"
        word = spender(f"{path}|{stop}|{int(made)}")
        got: list[int] = []
        if word == "stopped":
            for beside in set(tmp_path.glob("*")) - set(tmp_path.glob("ledger-*.json")):
                beside.unlink()
            here = threading.Thread(target=lambda p=path, g=got: g.append(_spends(p)))
            here.start()
            here.join(0.1)  # it waits for a lock, or has it
            ended = spender()
            here.join()
        else:
            ended = word
        granted.append((ended == "granted") + sum(got))
        spent = Ledger.open(path).spent.epsilon(0.0) if path.exists() else 0.0
        assert spent >= granted[-1]
    assert stop > 15
    assert granted[-1] == 1  # nothing is in the way where nothing is deleted
    assert max(granted) == 1


def _spends(path: Path) -> int:
    try:
        Ledger(Budget(1.0), path=path).spend(pure(1.0))
    except (BudgetExceeded, OSError):
        return 0
    return 1


# ---------------------------------------------------------------- 73: a source that differs by read
def _differing(blocks: int, size: int) -> tuple[object, list[int]]:
    """A Dask array one of whose blocks holds other records at each read, and how often it was."""
    dask_array = pytest.importorskip("dask.array")
    rng, reads = np.random.default_rng(0), [0]
    x = rng.normal(size=(blocks * size, 2))

    def other(block: np.ndarray, block_info: object = None) -> np.ndarray:
        info = block_info[0] if block_info else None  # type: ignore[index]
        if info is None or info["chunk-location"][0] != 1:
            return block
        reads[0] += 1
        return block * (-1.0) ** reads[0] + 0.01 * reads[0]

    array = dask_array.from_array(x / 8.0, chunks=(size, 2))
    return array.map_blocks(other, dtype=float, meta=np.empty((0, 2))), reads


SPACE = riemdp.PoincareBall(2)
CENTER = np.zeros(2)


def test_fault_73_a_dask_array_that_differs_at_each_read_is_refused_before_the_charge(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: a mean moved by 1.4 where its sensitivity is 5e-4, and nothing was said."""
    plant(monkeypatch, "numbers that are kept of a file", 0)  # else it is read once
    array, reads = _differing(4, 500)
    ledger = Ledger(Budget(5.0, 1e-5))
    ball = Ball(CENTER, 1.0)
    with pytest.raises(InvalidArgument, match="`X` differs at each read") as caught:
        private_frechet_mean(SPACE, array, ball, Budget(1.0, 1e-6), ledger=ledger)
    assert reads[0] > 1
    assert ledger.charges == 0
    said = str(caught.value)
    assert not re.search(r"\d|block \d|chunk", said)


@pytest.mark.parametrize("kept", [False, True])
def test_fault_73_a_file_that_is_written_meanwhile_is_refused(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is read in parts: a file of which one record is another one at the second pass. A
    file of which the records are kept is read once.
    """
    if not kept:
        plant(monkeypatch, "numbers that are kept of a file", 0)
    x = np.random.default_rng(1).normal(size=(20000, 2)) / 8.0
    x[np.arange(len(x)) % 2000 < 500] += 0.3  # a sample is far off, so one pass is not enough
    held = np.memmap(tmp_path / "x.dat", dtype=float, mode="w+", shape=x.shape)
    held[:] = x
    held.flush()
    passes = [0]

    read = Doors.Map.read

    def written(self: Doors.Map, start: int, stop: int) -> np.ndarray:
        part = read(self, start, stop)
        if stop == self.n:
            passes[0] += 1
            held[7] = x[7 + passes[0]]
            held.flush()
        return part

    plant(monkeypatch, "a file's read", written)
    ledger = Ledger(Budget(5.0, 1e-5))
    ball = Ball(CENTER, 1.0)
    refused = pytest.raises(InvalidArgument, match="`X` differs at each read")
    with contextlib.nullcontext() if kept else refused:
        private_frechet_mean(SPACE, held, ball, Budget(1.0, 1e-6), ledger=ledger)
    assert ledger.charges == passes[0] == 1 if kept else ledger.charges == 0


@pytest.mark.parametrize(("search", "charges"), [(True, 1), (False, 0)], ids=["search", "k-norm"])
def test_fault_73_what_reads_while_it_draws_gives_no_value(
    search: bool, charges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search has a charge by then, which stands; the other one has measured its value twice."""
    plant(monkeypatch, "numbers that are kept of a file", 0)
    array, _ = _differing(4, 500)
    ledger = Ledger(Budget(5.0, 1e-5))
    given = (riemdp.AdaptiveBall(), Budget(2.0, 1e-6)) if search else (Ball(CENTER, 1), Budget(2.0))
    named = "auto" if search else "k-norm-gradient"
    with pytest.raises(InvalidArgument, match="differs at each read"):
        private_frechet_mean(SPACE, array, *given, mechanism=named, ledger=ledger)
    assert ledger.charges == charges


# --------------------------------------------------------------- 72: programs that tell of a person
def _compiled(X: np.ndarray, groups: np.ndarray) -> int:
    """How many programs are compiled for these people, and one more, in a process that has none."""
    made = [0]

    def count(event: str, _: float, **__: object) -> None:
        made[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    try:
        space = riemdp.Euclidean(2)
        with compiled_apart():
            Sums.people(space, X, groups, domain=Ball(space.origin, 0.6).on(space))
            jax.jit(lambda x: 3 * x)(1.0)
    finally:
        jax.monitoring.unregister_event_duration_listener(count)
    return made[0]


def test_fault_72_what_is_compiled_tells_nobodys_number_of_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before: a program for each power of four among the numbers of records of the people. Now
    none, and arrays of one size.
    """
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(5040, 2))
    one, some = np.arange(40), np.concatenate([np.arange(40), np.full(5000, 39)])
    shapes: set[object] = set()
    real = original("distances of people")

    def seen(*given: object) -> object:
        shapes.add(tuple(leaf.shape for leaf in jax.tree.leaves(given[1:])))
        return real(*given)

    plant(monkeypatch, "distances of people", seen)
    few = _compiled(X[:40], one)
    assert len(shapes) == 1
    many = _compiled(X, some)
    spread = _compiled(X[:400], np.repeat(np.arange(40), 10))
    assert few == many == spread == 1
    assert len(shapes) == 1


def test_fault_72_a_person_with_many_records_takes_memory_for_these() -> None:
    """Before: a person with 65 537 records took the memory of 262 144, several times."""
    sizes: list[int] = []
    real = original("distances of people")

    def seen(*given: object) -> object:
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(given[1:])))
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        plant(patch, "distances of people", seen)
        for n in (3, 3000):
            Sums.people(
                riemdp.Euclidean(2), np.random.default_rng(0).normal(size=(n, 2)), np.zeros(n)
            )
    assert len(set(sizes)) == 1


# --------------------------------------------------------------------------------- 74: suspicions
def test_fault_74_a_masked_label_is_missing() -> None:
    """Before: the label under the mask was taken, and so some other person's."""
    X, ball, ledger = np.zeros((4, 2)), Ball(np.zeros(2), 1.0), Ledger(Budget(1.0, 1e-5))
    masked = np.ma.MaskedArray([1, 2, 3, 4], mask=[False, False, True, False])
    for groups in (masked, [1, 2, np.ma.masked, 4], np.ma.MaskedArray(list("abcd"), masked.mask)):
        with pytest.raises(InvalidArgument, match="missing"):
            private_frechet_mean(
                riemdp.Euclidean(2), X, ball, Budget(1.0), groups=groups, ledger=ledger
            )
    assert ledger.charges == 0
    assert Doors.admit_people("groups", np.ma.MaskedArray([5, 5, 6]), 3)[1] == 2


def test_fault_74_a_name_in_two_forms_of_unicode_is_one_person() -> None:
    """Before: two people, of whom neither half was protected."""
    names = ["Zo\u00eb", "Zoe\u0308", "Zoe"]
    assert Doors.admit_people("groups", names, 3)[1] == 2
    assert Doors.admit_people("groups", np.array(names), 3)[1] == 2


def test_fault_74_an_adapting_gradient_divides_by_one_number() -> None:
    """The mean was divided by the expected size of a batch, and its sensitivity by another."""
    batches = Gradients.Batches(population=100, size=40, sampling="allocation", epoch=4)
    step = Gradients.AdaptingGradient.adapting(
        Gradients.AdaptiveClip(5, 3.0, 0.5, 10, 0.5, (0.1, 0.1)), batches, 1.0
    )
    assert step.sensitivity == batches.clips * step.adaptive.norm / batches.divisor
    assert step.sigma == pytest.approx(step.sensitivity)


@pytest.mark.parametrize("how", ["custom-vmap", "callback"])
def test_fault_74_a_loss_that_mixes_records_is_refused(how: str) -> None:
    """Before: it ran, and one record changed the clipped gradients of all others."""
    space = riemdp.Euclidean(2)

    @jax.custom_batching.custom_vmap
    def centred(z: jax.Array) -> jax.Array:
        return z

    @centred.def_vmap
    def _(size: int, batched: list[bool], z: jax.Array) -> tuple[jax.Array, bool]:
        return z - jnp.mean(z, axis=0), True

    def called(z: jax.Array) -> jax.Array:
        return jax.pure_callback(
            lambda x: np.asarray(x) - (np.mean(x, axis=0) if x.ndim > 1 else 0.0),
            jax.ShapeDtypeStruct(z.shape, z.dtype),
            z,
            vmap_method="expand_dims",
        )

    mixed = centred if how == "custom-vmap" else called
    problem = riemdp.Problem(
        space,
        lambda w, z: jnp.sum((w - z) ** 2),
        gradient=lambda w, z: 2.0 * (w - mixed(z)),
    )
    X, ledger = np.random.default_rng(0).normal(size=(50, 2)), Ledger(Budget(1.0, 1e-5))
    optimizer = riemdp.DPRGD(steps=2, clip_norm=1.0)
    with pytest.raises(InvalidArgument, match="mixes records"):
        riemdp.private_minimize(
            problem, X, np.zeros(2), optimizer, Budget(1.0, 1e-5), ledger=ledger
        )
    assert ledger.charges == 0
