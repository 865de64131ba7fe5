"""Covariance descriptors of images, and the public ball that holds all of them."""

from ._descriptors import covariance_descriptors, descriptor_ball, descriptor_spread

__all__ = ["covariance_descriptors", "descriptor_ball", "descriptor_spread"]
