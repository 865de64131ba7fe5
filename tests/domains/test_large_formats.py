"""Records in HDF5, Zarr and Dask arrays, with the real packages: `make test-slow` installs them."""

from __future__ import annotations

import numpy as np
import pytest

import riemdp
from riemdp import Budget, InvalidArgument, Ledger, private_frechet_mean
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
    with pytest.raises(InvalidArgument, match=r"cannot be read \(ValueError\)") as caught:
        private_frechet_mean(SPACE, array, BALL, BUDGET, ledger=ledger)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert ledger.spent.epsilon(1e-6) == 0.0
