"""Records from a folder of files: order, shapes, endings, files that cannot be read."""

from __future__ import annotations

import numpy as np
import pytest

from riemdp import InvalidArgument
from riemdp.datasets import read_folder


def scans(folder, n=4, k=2):
    made = np.random.default_rng(0).normal(size=(n, k, k))
    for i, x in enumerate(made):
        np.save(folder / f"scan-{i}.npy", x)
    return made


def test_files_become_records_in_the_order_of_their_names(tmp_path):
    made = scans(tmp_path)
    np.save(tmp_path / "a-first.npy", np.eye(2, dtype=np.float32))
    (tmp_path / ".hidden.npy").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("1 2 3")
    (tmp_path / "below").mkdir()
    np.save(tmp_path / "below" / "z.npy", np.eye(9))
    found = read_folder(tmp_path)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.concatenate([np.eye(2)[None], made]))
    assert np.array_equal(read_folder(str(tmp_path), shape=(2, 2)), found)


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "  "])
def test_text_files(tmp_path, separator):
    rows = [f"1.5{separator}-2e-3", f"0{separator}nan"]
    (tmp_path / "a.csv").write_text("\ufeff" + "\n".join(rows) + "\n\n", encoding="utf-8")
    (tmp_path / "b.CSV").write_text("\n".join(reversed(rows)))
    found = read_folder(tmp_path)
    expected = np.array([[1.5, -2e-3], [0.0, np.nan]])
    assert np.array_equal(found, np.stack([expected, expected[::-1]]), equal_nan=True)
    (tmp_path / "a.csv").write_text(rows[0])
    (tmp_path / "b.CSV").write_text(rows[1])
    assert read_folder(tmp_path).shape == (2, 2)  # one line is a vector


def spoil(tmp_path):
    """Five files that are no 2 x 2 array of numbers, each in its own way."""
    (tmp_path / "scan-1.npy").write_bytes(b"hello" * 100)
    (tmp_path / "scan-2.npy").write_bytes(b"")
    np.save(tmp_path / "scan-3.npy", np.eye(3))
    np.save(tmp_path / "scan-4.npy", np.array(["a", "b"]))
    np.save(tmp_path / "scan-5.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return [1, 2, 3, 4, 5]


def test_no_file_decides_how_the_others_are_read(tmp_path):
    made = scans(tmp_path, 8)
    wrong = spoil(tmp_path)
    found = read_folder(tmp_path, shape=(2, 2), on_invalid="center")
    assert found.shape == (8, 2, 2)
    for i in range(8):
        if i in wrong:
            assert np.all(np.isnan(found[i]))
        else:
            assert np.array_equal(found[i], made[i])
    with pytest.raises(InvalidArgument, match="public shape"):
        read_folder(tmp_path, on_invalid="center")
    with pytest.raises(InvalidArgument, match=r"\(2, 2\), \(3, 3\); give the public shape"):
        read_folder(tmp_path)
    with pytest.raises(InvalidArgument, match=r"1 \(scan-1.npy\): it cannot be read") as caught:
        read_folder(tmp_path, shape=(2, 2))
    assert "show it to nobody else" in str(caught.value)
    assert "hello" not in str(caught.value)


def test_a_decimal_comma_is_no_separator(tmp_path):
    (tmp_path / "a.csv").write_text("1,5;2,5\n3,5;4,5")
    with pytest.raises(InvalidArgument, match="it cannot be read"):
        read_folder(tmp_path, shape=(2, 2))


def test_arguments_are_checked(tmp_path):
    with pytest.raises(InvalidArgument, match=r"holds no \.npy or \.csv"):
        read_folder(tmp_path)
    with pytest.raises(InvalidArgument, match="no folder"):
        read_folder(tmp_path / "nowhere")
    scans(tmp_path)
    (tmp_path / "a.csv").write_text("1,2\n3,4")
    with pytest.raises(InvalidArgument, match="ending="):
        read_folder(tmp_path)
    assert read_folder(tmp_path, ending=".csv").tolist() == [[[1, 2], [3, 4]]]
    for options in ({"shape": 3}, {"shape": (2, 0)}, {"ending": ".txt"}, {"on_invalid": "skip"}):
        with pytest.raises(InvalidArgument, match=f"`{next(iter(options))}`"):
            read_folder(tmp_path, **options)
