"""Data sets (from `RIEMDP_DATA`, a cache, or a checked download) and covariance descriptors of
images.
"""

from ._bundled import digits, faces, histology_patches, textures
from ._descriptors import covariance_descriptors, descriptor_ball, descriptor_spread
from ._embedding import mean_average_precision, poincare_embedding, trained_mammals
from ._files import cache_folder, data_folder
from ._graphs import laplacian_eigenmap, mammals_embedding, wordnet_mammals
from ._images import cifar10, fashion_mnist, kmnist, mnist, octmnist, pathmnist, read_idx
from ._records import Covariances, Graph, Images, Ratings, Table
from ._tables import (
    erp_covariances,
    ijcnn1,
    movielens_1m,
    read_libsvm,
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
    "covariance_descriptors",
    "data_folder",
    "descriptor_ball",
    "descriptor_spread",
    "digits",
    "erp_covariances",
    "faces",
    "fashion_mnist",
    "histology_patches",
    "ijcnn1",
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
    "read_libsvm",
    "riemopt_ijcnn",
    "riemopt_satimage",
    "textures",
    "trained_mammals",
    "wordnet_mammals",
]
