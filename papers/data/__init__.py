"""The data sets of the papers: from the folder `RIEMDP_DATA`, a cache, or a checked download."""

from .bundled import digit_covariances, digits, faces, histology_patches, textures
from .files import cache_folder, data_folder
from .images import cifar10, fashion_mnist, kmnist, mnist, octmnist, pathmnist, read_idx
from .records import Covariances, Images, Ratings, Table
from .tables import (
    erp_covariances,
    mammals_embedding,
    movielens_1m,
    riemopt_ijcnn,
    riemopt_satimage,
)

__all__ = [
    "Covariances",
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
    "mammals_embedding",
    "mnist",
    "movielens_1m",
    "octmnist",
    "pathmnist",
    "read_idx",
    "riemopt_ijcnn",
    "riemopt_satimage",
    "textures",
]
