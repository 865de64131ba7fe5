"""The data sets of the papers: from the folder `RIEMDP_DATA`, a cache, or a checked download."""

from .bundled import digit_covariances, digits, faces, histology_patches, textures
from .embedding import mean_average_precision, poincare_embedding, trained_mammals
from .files import cache_folder, data_folder
from .graphs import laplacian_eigenmap, mammals_embedding, wordnet_mammals
from .images import cifar10, fashion_mnist, kmnist, mnist, octmnist, pathmnist, read_idx
from .records import Covariances, Graph, Images, Ratings, Table
from .tables import (
    erp_covariances,
    movielens_1m,
    riemopt_ijcnn,
    riemopt_satimage,
)

__all__ = [
    "Covariances",
    "Graph",
    "Images",
    "Ratings",
    "Table",
    "cache_folder",
    "cifar10",
    "data_folder",
    "digit_covariances",
    "digits",
    "erp_covariances",
    "faces",
    "fashion_mnist",
    "histology_patches",
    "kmnist",
    "laplacian_eigenmap",
    "mammals_embedding",
    "mean_average_precision",
    "mnist",
    "movielens_1m",
    "octmnist",
    "pathmnist",
    "poincare_embedding",
    "read_idx",
    "riemopt_ijcnn",
    "riemopt_satimage",
    "textures",
    "trained_mammals",
    "wordnet_mammals",
]
