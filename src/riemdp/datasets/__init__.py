"""Covariance descriptors of images, records from files, and real images that need no download."""

from ._bundled import digits, faces, histology_patches, textures
from ._descriptors import covariance_descriptors, descriptor_ball, descriptor_spread
from ._folder import read_folder
from ._records import Images

__all__ = [
    "Images",
    "covariance_descriptors",
    "descriptor_ball",
    "descriptor_spread",
    "digits",
    "faces",
    "histology_patches",
    "read_folder",
    "textures",
]
