"""The embedding trained on a public graph, its score, and its cache."""

from __future__ import annotations

import numpy as np
import pytest

from papers import data as datasets
from papers.data import embedding as _embedding
from riemdp import DataUnavailable, InvalidArgument


def tree(depth: int = 4) -> datasets.Graph:
    """The closure of a binary tree with 2^(depth + 1) - 1 nodes."""
    count = 2 ** (depth + 1) - 1
    edges = []
    for node in range(1, count):
        above = node
        while above:
            above = (above - 1) // 2
            edges.append((node, above))
    return datasets.Graph(
        tuple(f"n{i}.n.01" for i in range(count)), np.array(edges), "tree", "test", "none"
    )


def lorentz(xy: np.ndarray) -> np.ndarray:
    return np.concatenate([np.sqrt(1 + np.sum(xy**2, axis=1, keepdims=True)), xy], axis=1)


def slow_score(graph: datasets.Graph, points: np.ndarray) -> float:
    """The definition, one node and one parent at a time."""
    scores = []
    for i in range(len(graph)):
        own = [int(b) for a, b in graph.edges if a == i and b != i]
        if not own:
            continue
        minkowski = points[:, 0] * points[i, 0] - points[:, 1:] @ points[i, 1:]
        rank = {
            b: sum(minkowski[j] <= minkowski[b] for j in range(len(graph)) if j != i) for b in own
        }
        scores.append(
            np.mean([(k + 1) / rank[b] for k, b in enumerate(sorted(own, key=lambda b: rank[b]))])
        )
    return float(np.mean(scores))


def test_score_is_that_of_the_definition():
    graph = tree(3)
    points = lorentz(np.random.default_rng(0).standard_normal((len(graph), 2)))
    assert datasets.mean_average_precision(graph, points) == pytest.approx(
        slow_score(graph, points), rel=1e-12
    )
    # A chain of three whose ancestors come first in order of distance.
    chain = datasets.Graph(
        ("a", "b", "c"), np.array([(1, 0), (2, 1), (2, 0)]), "chain", "test", "none"
    )
    assert (
        datasets.mean_average_precision(chain, lorentz(np.array([[0.0, 0], [1.0, 0], [3.0, 0]])))
        == 1.0
    )
    assert (
        datasets.mean_average_precision(chain, lorentz(np.array([[0.0, 0], [9.0, 0], [0.1, 0]])))
        < 1.0
    )
    with pytest.raises(InvalidArgument, match="points"):
        datasets.mean_average_precision(chain, np.zeros((2, 3)))


@pytest.mark.slow
def test_training_reconstructs_a_tree_and_is_reproducible():
    graph = tree()
    start = datasets.poincare_embedding(graph, epochs=60, rate=1e-9, seed=3)
    points = datasets.poincare_embedding(graph, epochs=60, rate=0.3, seed=3)
    assert points.shape == (31, 3)
    np.testing.assert_allclose(
        points[:, 0] ** 2 - np.sum(points[:, 1:] ** 2, axis=1), 1.0, atol=1e-6
    )
    assert np.all(np.arccosh(points[:, 0]) <= _embedding._REACH + 1e-6)
    assert datasets.mean_average_precision(graph, points) > 0.75
    assert datasets.mean_average_precision(graph, start) < 0.5, (
        "untrained points must not reach the score"
    )
    np.testing.assert_array_equal(
        points, datasets.poincare_embedding(graph, epochs=60, rate=0.3, seed=3)
    )
    loops = datasets.Graph(("a", "b"), np.array([(0, 0)]), "loops", "test", "none")
    with pytest.raises(InvalidArgument, match="edge"):
        datasets.poincare_embedding(loops)
    with pytest.raises(InvalidArgument, match="rate"):
        datasets.poincare_embedding(graph, rate=0.0)


def test_the_cache_is_used_and_a_torn_file_is_not(tmp_path):
    points = lorentz(np.random.default_rng(1).standard_normal((5, 2)))
    path = tmp_path / "sub" / "points.npy"
    assert _embedding._read(path, 5) is None
    _embedding._keep(path, points)
    np.testing.assert_array_equal(_embedding._read(path, 5), points)
    assert [p.name for p in path.parent.iterdir()] == ["points.npy"]
    assert _embedding._read(path, 6) is None
    path.write_bytes(path.read_bytes()[:100])
    assert _embedding._read(path, 5) is None
    np.save(path, points + 0.1)  # not on the hyperboloid
    assert _embedding._read(path, 5) is None


def test_without_the_graph_the_error_names_it(monkeypatch, tmp_path):
    monkeypatch.setenv("RIEMDP_DATA", str(tmp_path))
    monkeypatch.setenv("RIEMDP_CACHE", str(tmp_path / "cache"))
    with pytest.raises(DataUnavailable, match="mammal_closure"):
        datasets.trained_mammals(download=False)


@pytest.mark.slow
def test_the_stated_score_of_the_mammals():
    try:
        graph = datasets.wordnet_mammals(download=False)
    except DataUnavailable as error:
        pytest.skip(str(error))
    found = datasets.trained_mammals(download=False)
    assert round(
        datasets.mean_average_precision(graph, found["lorentz_embedding"]), 2
    ) == pytest.approx(0.71, abs=0.02)
    assert found["poincare_embedding"].shape == (1180, 2)
    assert np.max(np.linalg.norm(found["poincare_embedding"], axis=1)) < 1
    np.testing.assert_array_equal(
        found["test_embedding"], found["lorentz_embedding"][graph.index("horse.n.01")]
    )
