"""Records in HDF5, Zarr and Dask arrays, with the real packages: `make test-slow` installs them."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import riemdp
from riemdp import Ball, Budget, InvalidArgument, Ledger, private_frechet_mean
from tests.domains.test_stream import BALL, BUDGET, SPACE, N, records, small_parts

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:about")]
__all__ = ["small_parts"]  # a fixture of every test here, too


def _same(found: riemdp.Release, **options: object) -> None:
    whole = private_frechet_mean(SPACE, records(), BALL, BUDGET, rng=3, **options)  # type: ignore
    assert np.max(np.abs(np.asarray(whole.value) - np.asarray(found.value))) < 1e-9
    assert str(whole.details.get("outside")) == str(found.details.get("outside"))


def test_hdf5(tmp_path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=records(), chunks=(300, 2, 2), compression="gzip")
    with h5py.File(tmp_path / "x.h5", "r") as file:
        _same(private_frechet_mean(SPACE, file["x"], BALL, BUDGET, rng=3))


def test_a_damaged_piece_of_hdf5_costs_nothing(tmp_path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", data=records(), chunks=(300, 2, 2), fletcher32=True)
        place = made.id.get_chunk_info(5).byte_offset
    with open(tmp_path / "x.h5", "r+b") as raw:
        raw.seek(place + 8)
        raw.write(b"\x00\x01\x02\x03")
    ledger = Ledger(Budget(2.0, 1e-5))
    with h5py.File(tmp_path / "x.h5", "r") as file, pytest.raises(InvalidArgument, match="rows"):
        private_frechet_mean(SPACE, file["x"], BALL, BUDGET, ledger=ledger)
    assert ledger.spent.epsilon(1e-6) == 0.0


def test_zarr(tmp_path) -> None:
    import zarr

    array = zarr.create_array(
        str(tmp_path / "x.zarr"), shape=(N, 2, 2), chunks=(777, 2, 2), dtype="f8"
    )
    array[:] = records()
    _same(private_frechet_mean(SPACE, array, BALL, BUDGET, rng=3))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mechanism": "wrapped-gaussian", "weights": np.arange(1.0, N + 1.0)},
        {"mechanism": "wrapped-gaussian", "n_min": N + 9},
    ],
    ids=["plain", "weights", "filled"],
)
def test_dask_without_a_cluster(options) -> None:
    import dask.array

    array = dask.array.from_array(records(), chunks=(999, 1, 2))
    _same(private_frechet_mean(SPACE, array, BALL, BUDGET, rng=3, **options), **options)
    with pytest.raises(InvalidArgument, match="unknown sizes"):
        private_frechet_mean(SPACE, array[array[:, 0, 0] > 0], BALL, BUDGET)


def test_an_error_of_a_worker_shows_nothing() -> None:
    import dask.array

    def fails(block: np.ndarray) -> np.ndarray:
        raise ValueError(f"could not read {block[0]}")

    array = dask.array.from_array(records(), chunks=(999, 2, 2)).map_blocks(fails, dtype=float)
    ledger = Ledger(Budget(2.0, 1e-5))
    with pytest.raises(
        InvalidArgument, match=r"cannot be read or reduced \(ValueError\)"
    ) as caught:
        private_frechet_mean(SPACE, array, BALL, BUDGET, ledger=ledger)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert ledger.spent.epsilon(1e-6) == 0.0


def _killing(block: np.ndarray, marker: str) -> np.ndarray:
    """The block; but the first worker that comes here dies."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_a_worker_that_is_killed_changes_nothing(tmp_path) -> None:
    """Two worker processes; one of them is killed in the middle of a pass."""
    import dask.array
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        before = set(client.run(os.getpid).values())
        plain = dask.array.from_array(records(), chunks=(500, 2, 2))
        calm = private_frechet_mean(SPACE, plain, BALL, BUDGET, rng=3)
        _same(calm)
        marker = str(tmp_path / "killed")
        deadly = plain.map_blocks(_killing, marker, meta=np.empty((0, 2, 2)))
        found = private_frechet_mean(SPACE, deadly, BALL, BUDGET, rng=3)
        assert os.path.exists(marker)
        assert np.array_equal(np.asarray(found.value), np.asarray(calm.value))
        client.wait_for_workers(2, timeout=60)
        assert set(client.run(os.getpid).values()) != before


def test_only_sums_leave_a_block() -> None:
    """What a worker sends back is as small for many records as for few."""
    import dask.array

    from riemdp.domains import _cluster

    sent: list[int] = []
    run = _cluster._run

    def spied(*given):
        found = run(*given)
        import jax

        sent.append(sum(np.asarray(leaf).size for leaf in jax.tree.leaves(found)))
        return found

    largest = []
    for rows in (999, 250):
        sent.clear()
        array = dask.array.from_array(records(), chunks=(rows, 2, 2))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_cluster, "_run", spied)
            private_frechet_mean(SPACE, array, Ball(np.eye(2), 1.0), BUDGET, rng=3)
        assert sent
        largest.append(max(sent))
    # sums and what their rounding left, of logarithms, squares, weights and flags; and a checksum
    assert largest[0] == largest[1] <= 2 * (SPACE.dim + 3) + 1
