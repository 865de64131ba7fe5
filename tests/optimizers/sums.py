"""The clipped sum of a step by hand, for tests of what one record moves."""

from __future__ import annotations

from typing import Any

import jax

from tests.seam import Gradients


def total_of_all(gradient: Any, kernel: Any, state: Any, data: Any, chunk: int, center: Any) -> Any:
    """The clipped sum over all records, `chunk` at a time, about a center in coordinates."""
    records, row = Gradients.PrivateRecords(data), Gradients.Row(None, None, None, 0)

    def sums(part: Any, present: Any) -> Any:
        return gradient.sum_of(kernel, state, part, present, center)

    return jax.jit(lambda: records.total(row, chunk, sums))()
