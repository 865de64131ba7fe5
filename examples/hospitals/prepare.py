"""Writes the records of one hospital: here its share of scikit-learn's digit images, as covariance
descriptors. Write your own in its place; the node reads the file only.

    python prepare.py 0 records-0.npy
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from riemdp.datasets import covariance_descriptors

HOSPITALS = 3
ETA = 1e-2  # public regularisation: decides the radius in agreement.toml


def main(part: int, target: str) -> None:
    digits: Any = load_digits()
    images = digits.images[part::HOSPITALS] / 16.0
    np.save(target, np.asarray(covariance_descriptors(images, eta=ETA)))
    print(f"{target}: {len(images)} records")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
