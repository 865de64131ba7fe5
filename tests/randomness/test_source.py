"""The noise source: its distributions, and that its key and stream stay where they are."""

from __future__ import annotations

import copy
import io
import itertools
import logging
import multiprocessing
import os
import pickle
import secrets
import signal
import subprocess
import sys
import threading
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import riemdp
from riemdp import NoiseSource, RiemdpError, noise_source
from tests.statistical import ALPHA, gaussian_p_value, ks_p_value

N = 200_000


# ------------------------------------------------------------------------------------------------
# distributions
def test_normals_uniforms_gammas() -> None:
    source = noise_source(1)
    normals = source.normals((N // 4, 4))
    assert normals.dtype == np.float64
    assert gaussian_p_value(normals, 1.0) > ALPHA
    assert gaussian_p_value(0.8 * normals, 1.0) < ALPHA  # the planted twin
    assert gaussian_p_value(normals.astype(np.float32).round(1), 1.0) < ALPHA
    uniforms = source.uniforms(N)
    assert ks_p_value(uniforms, "uniform") > ALPHA
    assert uniforms.min() > 0.0
    assert uniforms.max() < 1.0
    assert ks_p_value(source.gammas(2.5, N), stats.gamma(2.5).cdf) > ALPHA
    assert source.gammas(np.array([1.0, 100.0]), (5, 2)).shape == (5, 2)
    assert source.normals().shape == ()


def test_normals_have_float64_tails() -> None:
    """Float32 generators stop at 5.4 sigma; 4e7 draws should pass 5.2, and the mantissa must be a
    full one.
    """
    normals = noise_source(2).normals(4_000_000)
    assert np.abs(normals).max() > 4.8
    low_bits = np.ascontiguousarray(normals).view(np.uint64) & np.uint64((1 << 20) - 1)
    assert len(np.unique(low_bits)) > 500_000


@pytest.mark.parametrize(("population", "size"), [(5, 2), (6, 1), (5, 4), (6, 3), (4, 4)])
def test_subsets_are_uniform(population: int, size: int) -> None:
    rows = noise_source(3).subsets(population, size, 60_000)
    assert rows.shape == (60_000, size)
    seen = Counter(map(tuple, np.sort(rows, axis=1).tolist()))
    possible = list(itertools.combinations(range(population), size))
    assert set(seen) <= set(possible)
    if len(possible) > 1:
        assert stats.chisquare([seen[s] for s in possible]).pvalue > ALPHA
        with_replacement = np.random.default_rng(0).integers(
            0, population, (60_000, size)
        )  # the planted twin
        assert size == 1 or any(len(set(row)) < size for row in with_replacement.tolist())


def test_large_subsets_are_distinct_and_even() -> None:
    for population, size, count in (
        (10_000, 100, 500),
        (1000, 400, 200),
        (300, 290, 100),
        (10**7, 3, 1000),
        (50, 7, 0),
    ):
        rows = noise_source(4).subsets(population, size, count)
        assert rows.shape == (count, size)
        assert all(len(np.unique(row)) == size for row in rows)
        if count:
            assert 0 <= rows.min() <= rows.max() < population
    hits = np.bincount(noise_source(5).subsets(1000, 400, 2000).ravel(), minlength=1000)
    assert stats.chisquare(hits).pvalue > ALPHA


# ------------------------------------------------------------------------------------------------
# seeds
def test_seed_reproduces_and_seeds_differ() -> None:
    assert np.array_equal(noise_source(7).normals(9), noise_source(np.int64(7)).normals(9))
    assert not np.array_equal(noise_source(7).normals(9), noise_source(8).normals(9))
    assert noise_source(7).reproducible
    assert not noise_source().reproducible
    assert noise_source(2**200).reproducible


def test_fresh_sources_never_agree() -> None:
    """Noise reuse across releases: two sources from the operating system share no draw; two of one
    seed share all (planted).
    """
    fresh = [noise_source().normals(4).tobytes() for _ in range(200)]
    assert len(set(fresh)) == 200
    assert len({noise_source(0).normals(4).tobytes() for _ in range(200)}) == 1
    source = noise_source(0)
    assert (
        len({source.normals(4).tobytes() for _ in range(200)}) == 200
    )  # one source moves on from release to release


@pytest.mark.parametrize(
    "rng",
    [
        True,
        False,
        -1,
        1.5,
        "seed",
        np.random.default_rng(0),
        None.__class__,
        [1],
        np.array([1, 2]),
        np.bool_(True),
    ],
)
def test_bad_rng_is_named(rng: object) -> None:
    with pytest.raises(ValueError, match="rng"):
        noise_source(rng)  # type: ignore[arg-type]


def test_a_seeded_source_is_passed_through() -> None:
    source = noise_source(3)
    assert noise_source(source) is source


def test_every_release_of_one_source_has_a_key_of_its_own(monkeypatch) -> None:
    """A snapshot that is resumed twice would draw the same noise in both lives otherwise."""
    keys = []
    honest = secrets.randbits
    monkeypatch.setattr(secrets, "randbits", lambda bits: keys.append(bits) or honest(bits))
    source = noise_source()
    space = riemdp.Euclidean(40)
    mechanism = riemdp.WrappedGaussian(
        space, np.zeros(40), sensitivity=0.1, budget=riemdp.Budget(1.0, 1e-6)
    )
    for releases in (1, 2, 3):
        mechanism.release(np.zeros(40), rng=source)
        assert len(keys) == releases


def test_a_source_has_no_children_whose_seed_can_be_read() -> None:
    for source in (noise_source(), noise_source(1)):
        with pytest.raises(TypeError, match="children"):
            source.generator.spawn(1)
        with pytest.raises(TypeError, match="seed"):
            _ = source.generator.bit_generator.seed_seq


# ------------------------------------------------------------------------------------------------
# no trace
@pytest.mark.parametrize("source", [NoiseSource(), NoiseSource(5)], ids=["os", "seed"])
def test_not_pickled_copied_or_shown(source: NoiseSource) -> None:
    source.normals(3)
    for thing in (source, source.generator, source.generator.bit_generator):
        for duplicate in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                duplicate(thing)
    with pytest.raises(TypeError):
        copy.copy(source)
    with pytest.raises(TypeError):
        _ = source.generator.bit_generator.state
    log = io.StringIO()
    logging.getLogger("t").addHandler(logging.StreamHandler(log))
    logging.getLogger("t").warning("%r %s", source, source)
    assert log.getvalue().strip() in {
        f"NoiseSource({kind}) NoiseSource({kind})"
        for kind in ("operating system", "seeded, not private")
    }
    assert not hasattr(source, "__dict__")


# ------------------------------------------------------------------------------------------------
# threads and forks
@pytest.mark.parametrize("seed", [None, 3])
def test_threads_share_no_draw(seed: int | None) -> None:
    source, found = NoiseSource(seed), []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        found.append(np.concatenate([source.normals(50) for _ in range(40)]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    everything = np.concatenate(found)
    assert len(np.unique(everything)) == 8 * 2000


def test_each_source_has_a_key_of_its_own_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of a process that is resumed twice has the key of the last source in it, and the
    next source must not go on with its stream: it draws a key, whatever was drawn before.
    """
    first, second = noise_source(), noise_source()
    drawn = [*first.normals(8), *second.normals(8), *first.normals(8), *second.normals(8)]
    assert len(set(drawn)) == 32
    asked = []

    def bits(count: int) -> int:
        asked.append(count)
        return 2**count // 3

    monkeypatch.setattr(secrets, "randbits", bits)
    streams = []
    for used in (0, 1, 7, 100):
        source = noise_source()
        streams.append(source.rounded_normals(2.0**32, 40).tolist())
        source.normals(used)
        source.integers(0, 10, used)
        source.generator.random(used, dtype=np.float32)
    assert asked == 4 * [256]
    assert all(stream == streams[0] for stream in streams)
    monkeypatch.undo()
    assert noise_source().rounded_normals(2.0**32, 40).tolist() != streams[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_child_needs_no_lock_of_its_parent() -> None:
    """A thread that was given a generator, against the advice, may hold its lock for ever in a
    child, where it is gone.
    """
    source = noise_source()
    source.normals(1)
    lock, held, done = source.generator.bit_generator.lock, threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)  # the end of a child that waits
            source.normals(2)
            noise_source().normals(2)
        except BaseException:
            os._exit(1)
        os._exit(0)
    done.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0


def _child(source: NoiseSource, queue: multiprocessing.Queue) -> None:
    try:
        queue.put(source.normals(5).tolist())
    except RiemdpError as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore")
def test_forked_children_draw_their_own_noise_or_refuse() -> None:
    context = multiprocessing.get_context("fork")
    for seed in (None, 3):
        source = NoiseSource(seed)
        source.normals(1)
        queue = context.Queue()
        children = [context.Process(target=_child, args=(source, queue)) for _ in range(2)]
        for child in children:
            child.start()
        answers = [queue.get(timeout=60) for _ in children]
        for child in children:
            child.join()
        mine = source.normals(5).tolist()
        if seed is None:
            assert len({tuple(x) for x in (*answers, mine)}) == 3
        else:
            assert all("forked" in answer for answer in answers)


_C_FORK = """
import ctypes, os, sys
from riemdp.randomness import _source
source, seeded = _source.NoiseSource(), _source.NoiseSource(3)
source.normals((4,)), seeded.normals((4,))
if len(sys.argv) > 1:  # planted: only Python's hooks are counted
    _source._process = lambda: (_source._forks, 0)
    source.normals((4,)), setattr(seeded, "_process", _source._process())
read, write = os.pipe()
child = ctypes.PyDLL(None).fork()
if child == 0:
    drawn = source.normals((4,)).tobytes().hex()
    try:
        seeded.normals((4,))
        answer = "drew"
    except Exception:
        answer = "refused"
    os.write(write, (drawn + " " + answer).encode())
    os._exit(0)
os.waitpid(child, 0)
theirs, answer = os.read(read, 4096).decode().split()
print(theirs == source.normals((4,)).tobytes().hex(), answer)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks through the C library")
def test_a_fork_in_c_repeats_no_noise() -> None:
    """S3: such a fork runs none of Python's hooks (uWSGI and the like)."""

    def run(*args: str) -> list[str]:
        command = [sys.executable, "-c", _C_FORK, *args]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert run() == ["False", "refused"]
    assert run("planted") == ["True", "drew"]


def test_no_source_opens_while_float64_is_off() -> None:
    """Fault 19."""
    import jax

    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(riemdp.PrecisionError):
            noise_source(1)
        with pytest.raises(riemdp.PrecisionError):
            noise_source()
    finally:
        jax.config.update("jax_enable_x64", True)
