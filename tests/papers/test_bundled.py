"""The images that come with scikit-learn and scikit-image."""

from __future__ import annotations

import numpy as np
import pytest

from papers import data as datasets
from riemdp import InvalidArgument


def test_bundled_images():
    pytest.importorskip("skimage")
    digits = datasets.digits()
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.min() == 0
    assert digits.images.max() == 1
    patches = datasets.histology_patches()
    assert patches.images.shape == (256, 32, 32, 3)
    assert patches.images.dtype == np.uint8
    assert np.bincount(patches.labels).tolist() == [128, 128]
    assert len(datasets.histology_patches(64, 32)) == 2 * 15 * 7
    assert datasets.textures().images.shape == (768, 32, 32)
    assert datasets.faces().images.shape == (200, 25, 25)
    with pytest.raises(InvalidArgument, match="size"):
        datasets.histology_patches(400)
