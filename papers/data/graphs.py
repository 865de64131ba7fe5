"""The mammals of WordNet: the transitive closure, its Laplacian eigenmap computed here, and a
trained embedding.
"""

from __future__ import annotations

import csv
import hashlib

import numpy as np
from scipy.linalg import eigh

from ..checks import integer, invalid
from .files import PublicFile, find, unreadable
from .records import Graph

_COPIES = (
    "https://raw.githubusercontent.com/ydtydr/HyperbolicTiling_Learning/7d045009bac7bb60f36d4db5683274c7f56778e8/",
    "https://raw.githubusercontent.com/canallee/MCF_hyperbolic_Learning/2c4ffd626b2da4bdb4ee5419d3c730ba45575ed5/",
)
# The order of the lines differs between public copies, so the digest of the *sorted* edges is
# checked, not the file's.
_CLOSURE = PublicFile(
    "mammals",
    "mammal_closure.csv",
    tuple(u + "wordnet/mammal_closure.csv" for u in _COPIES),
    None,
    "WordNet licence",
)
_CLOSURE_DIGEST = "c5a4c6ff8e8fc9ed43fe11af67a0f2090a0d2cde7f1d5f5341502d7576aae33c"
_EMBEDDING = PublicFile(
    "mammals",
    "mammals_lorentz.npz",
    (),
    None,
    "none stated: measure with it, do not redistribute (authors of RFedAGS)",
)


def wordnet_mammals(*, download: bool = True) -> Graph:
    """The mammal subtree of WordNet: 1180 nodes, 6540 edges (child, ancestor) of its transitive
    closure.

    Nodes are sorted by name, so that positions do not depend on which public copy was read.
    """
    path = find(_CLOSURE, download=download)
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            pairs = sorted({(row["id1"], row["id2"]) for row in csv.DictReader(lines)})
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise unreadable(path, f"it needs columns id1 and id2 ({error})") from error
    digest = hashlib.sha256("\n".join(f"{a},{b}" for a, b in pairs).encode()).hexdigest()
    if digest != _CLOSURE_DIGEST:
        raise unreadable(path, f"its {len(pairs)} edges are not the 6540 of the mammal closure")
    nodes = tuple(sorted({name for pair in pairs for name in pair}))
    position = {name: i for i, name in enumerate(nodes)}
    edges = np.array([(position[a], position[b]) for a, b in pairs], dtype=np.int64)
    return Graph(nodes, edges, "WordNet mammals", str(path), _CLOSURE.licence)


def laplacian_eigenmap(graph: Graph, dimension: int = 3) -> np.ndarray:
    """Features (nodes, dimension) of the nodes: the eigenvectors of the smallest non-zero
    eigenvalues of the normalised graph Laplacian I - D^(-1/2) A D^(-1/2) (edges taken without
    direction), each divided by sqrt(degree) and scaled to unit norm, with the entry of largest size
    made positive, so that the result is the same on every machine up to rounding.

    Eigenvectors of a repeated eigenvalue are defined up to a rotation only. Source: Belkin and
    Niyogi (2003); used by Han2024 section 6.3 and Huang2024 as features of the hyperbolic
    prediction problem.
    """
    n = len(graph)
    dimension = integer("dimension", dimension, at_least=1, at_most=n - 1)
    adjacency = np.zeros((n, n))
    child, parent = graph.edges.T
    different = child != parent
    adjacency[child[different], parent[different]] = 1.0
    adjacency = np.maximum(adjacency, adjacency.T)
    degree = adjacency.sum(axis=1)
    if np.any(degree == 0):
        raise invalid("graph", repr(graph), "every node needs an edge to another node")
    root = 1.0 / np.sqrt(degree)
    laplacian = np.eye(n) - root[:, None] * adjacency * root[None, :]
    values, vectors = eigh(laplacian, subset_by_index=(0, min(n - 1, dimension + 1)))
    if values[1] < 1e-10:
        raise invalid(
            "graph",
            repr(graph),
            "the graph has to be connected (its Laplacian has a repeated eigenvalue zero)",
        )
    features = vectors[:, 1 : dimension + 1] * root[:, None]
    features /= np.linalg.norm(features, axis=0)
    signs = np.sign(features[np.abs(features).argmax(axis=0), np.arange(dimension)])
    return features * signs


def mammals_embedding(*, download: bool = True) -> dict[str, np.ndarray]:
    """A trained embedding of the mammals by the authors of RFedAGS, only where it is in
    `RIEMDP_DATA`.

    Keys: `laplacian_features` (1180, 3), `lorentz_embedding` (1180, 3) with the time coordinate
    first, `poincare_embedding` (1180, 2), `test_feature` (3,), `test_embedding` (3,). Its node
    order is the authors' own. Lorentz points are projected back to the hyperboloid (the file stores
    them to limited accuracy).
    """
    path = find(_EMBEDDING, download=download)
    keys = (
        "laplacian_features",
        "lorentz_embedding",
        "poincare_embedding",
        "test_feature",
        "test_embedding",
    )
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key].astype(np.float64) for key in keys}
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise unreadable(path, f"it needs the arrays {', '.join(keys)} ({error})") from error
    for key in ("lorentz_embedding", "test_embedding"):
        arrays[key][..., 0] = np.sqrt(1.0 + np.sum(arrays[key][..., 1:] ** 2, axis=-1))
    return arrays
