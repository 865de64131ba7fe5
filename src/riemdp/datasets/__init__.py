"""Covariance descriptors of images, records from files, and real images that need no download."""

from ._bundled import digits, faces, histology_patches, textures
from ._descriptors import covariance_descriptors, descriptor_ball, descriptor_spread
from ._folder import read_folder
from ._formats import (
    EpochRecords,
    TensorRecords,
    from_upper_triangles,
    read_diffusion_tensors,
    read_epochs,
)
from ._records import Images
from ._tables import TableRecords, from_table

__all__ = [
    "EpochRecords",
    "Images",
    "TableRecords",
    "TensorRecords",
    "covariance_descriptors",
    "descriptor_ball",
    "descriptor_spread",
    "digits",
    "faces",
    "from_table",
    "from_upper_triangles",
    "histology_patches",
    "read_diffusion_tensors",
    "read_epochs",
    "read_folder",
    "textures",
]
