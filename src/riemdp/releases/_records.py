"""From what the user gave to what a mean is computed of: records inside the public ball, and their
shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._errors import InvalidArgument, integer, invalid, one_of
from ..statistics._sensitivity import ADD_REMOVE, ADJACENCIES, public_weights


@dataclass(frozen=True)
class Prepared:
    """Records in the ball, the shares they have in the mean (None: equal ones), and the public
    number the noise is made for.
    """

    records: Any
    shares: Any
    n: int
    public_facts: dict[str, Any]


def prepare(manifold: Any, X: Any, ball: Any, weights: Any, adjacency: str, n_min: Any) -> Prepared:
    """Clamp the records and settle their shares. Only the form of the arguments is checked: what
    the records hold raises nothing.

    Replace-one: n is public, so are the weights. Add-or-remove-one: the number of records, and the
    weights that they bring with them, are as private as the records. The mean is that of the
    records and of max(0, n_min - total weight) of weight at the centre; the centre is always
    appended, with weight 0 if nothing lacks.
    """
    one_of("adjacency", adjacency, ADJACENCIES)
    if adjacency != ADD_REMOVE:
        if n_min is not None:
            raise invalid(
                "n_min",
                n_min,
                'under "replace-one" the number of records is public; leave it out, or give '
                'adjacency="add-or-remove-one"',
            )
        records, n = checked_records(manifold, X, at_least=1)
        shares = None if weights is None else public_weights(weights, n)
        return Prepared(
            ball.clamp(manifold, records), shares, n, {"n": n, "radius": float(ball.radius)}
        )
    if n_min is None:
        raise invalid(
            "n_min",
            n_min,
            "under add-or-remove-one the number of records is private; give a public lower bound of"
            " it (data sets with fewer records are filled up with the centre of the ball)",
        )
    n_min = integer("n_min", n_min)
    records, count = checked_records(manifold, X, at_least=0)
    own = np.ones(count) if weights is None else _own_weights(weights, count)
    total = float(np.sum(own))
    shares = np.append(own, max(0.0, n_min - total)) / max(float(n_min), total)
    filled = jax.tree.map(
        lambda x, c: jnp.concatenate([x, c[None]]), ball.clamp(manifold, records), ball.center
    )
    return Prepared(filled, shares, n_min, {"n_min": n_min, "radius": float(ball.radius)})


def checked_records(manifold: Any, X: Any, *, at_least: int = 1) -> tuple[Any, int]:
    """Records as one stacked array (a tuple of arrays on a product) and their number. Only the form
    is checked: records that are not points are replaced by the centre of the ball later, whatever
    they hold.
    """
    records = manifold._coerce("X", X)
    batch = manifold._batch_shape(records)
    if len(batch) != 1 or batch[0] < at_least:
        raise InvalidArgument(
            f"argument `X` has batch shape {batch}; give n >= {at_least} records of {manifold!r}"
            " stacked along one leading axis"
        )
    return records, int(batch[0])


def _own_weights(weights: Any, count: int) -> np.ndarray:
    """The records' own weights, moved into [0, 1] like records into the ball: their values are
    private and raise nothing.
    """
    try:
        w = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            "argument `weights` is not an array of real numbers; give one weight in [0, 1] a record"
        ) from error
    if w.shape != (count,):
        raise InvalidArgument(
            f"argument `weights` has shape {w.shape}; give one weight in [0, 1] for each record"
            " of `X`"
        )
    return np.clip(np.nan_to_num(w, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
