"""Every constant of what is done with a `PublicPrior`, and the data that set it. None of them was
chosen by looking at private data, and no guarantee rests on one.

Data: "digits" are covariance descriptors of MNIST, digits 1 to 9 public and 0 private for means;
"ERP" are the halves of 216 evoked responses; "SSVEP" are four people for four others.
"""

from __future__ import annotations

# ------------------------------------------------------------------ of the public records
FEWEST = 30  # public records about their means: below it a shape is noise (ERP, 8 and 32 channels)
MOST_CONDITION = 1e6  # of the shape: float64 resolves what is divided by its root

# ------------------------------------------------------------------ of a mean
STAGES = (0.25, 0.75)  # of mu^2: where the first centre is found, and about it (digits)
SECOND_STAGE_FROM = 6.0  # n mu over sqrt(effective dimension) from which there are two (digits)
FIRST_QUANTILE = 0.9  # of the lengths of public records: the radius of a first stage (digits)
FIRST_FACTOR = 1.25  # of it, where a second stage follows (digits)
RADIUS_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)  # radii that are compared
RADIUS_FACTORS = (1.25, 1.5)  # of the largest length, that are compared, too
CAUTION = 1.0  # deviations of the noise's squared length that are no signal (ERP 8: its 90 % error)
BIAS_WEIGHT = 0.3  # of the clipping bias: errors of clipped records partly cancel (digits, ERP)
USELESS_NOISE = 2.0  # noise over the public error from which a private mean gains under 11 %

# ------------------------------------------------------------------ of a classifier
REST_SHARE = 0.7  # of the length along class directions that the rest is given in the clip (SSVEP)
RECORD_QUANTILE = 0.5  # of the lengths of public records: the clip of records (digits 0-4 for 5-9)
BLOCK_QUANTILE = 0.9  # of the lengths of public people's contrasts: the clip of people (SSVEP)
CONSISTENT = 0.99  # of chi-square: so far noisy contrasts are off the public ones by chance (SSVEP)
SIGNIFICANT = 3.0  # deviations by which other directions have to exceed their noise (SSVEP)
LEAST_KEPT = 1e-3  # of them in any case: their order decides where nothing else is known
