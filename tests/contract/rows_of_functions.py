"""Rows of the functions of `riemdp.releases`, and of mechanisms by themselves."""

from __future__ import annotations

import numpy as np

import riemdp
from riemdp import AdaptiveBall, Ball, Budget
from riemdp import mechanisms as m

from . import data as d
from .entry import COUNTED, PURE, REFUSED, Entry, Refusal, coordinates, rest, the_value

WRONG_BUDGET = (Refusal({"budget": None}), Refusal({"budget": "all of it"}))
WRONG_RNG = (Refusal({"rng": "seed"}), Refusal({"rng": -1}), Refusal({"rng": True}))
WRONG_RECORDS = (
    Refusal({"X": "records"}),
    Refusal({"X": 5.0}),
    Refusal({"X": None}),
    Refusal({"X": np.zeros((60, 7))}),
)
COMMON = (*WRONG_BUDGET, *WRONG_RNG, *WRONG_RECORDS)
WRONG_BALL = (Refusal({"ball": 1.0}), Refusal({"ball": Ball(np.zeros(5), 1.0)}))
WRONG_GROUPS = (
    Refusal({"groups": np.zeros(3, dtype=int)}),
    Refusal({"groups": "people"}),
    Refusal({"groups": 5}),
)
MEAN = "riemdp.private_frechet_mean"


def of_space(function, space, *middle, **fixed):
    """`function(space, X, ...)`, with the arguments between X and the keywords."""

    def call(data, given, **options):
        keywords = {**given.keywords, **fixed, **rest("X", data), **options}
        X = keywords.pop("X", data["X"])
        return function(space, X, *middle, **keywords)

    return call


def mean(variant, make=None, *, space=d.SPD, ball=d.BALL, claim="mean in a public ball", **facts):
    """A row of `private_frechet_mean`; what is no field of `Entry` is an argument of the call."""
    fields = {k: facts.pop(k) for k in list(facts) if k in Entry.__dataclass_fields__}
    fields.setdefault("refusals", (*COMMON, *WRONG_BALL))
    if "n_min" in facts:
        fields["adjacency"] = "add-or-remove-one"
    call = of_space(riemdp.private_frechet_mean, space, **({"ball": ball} | facts))
    return Entry(MEAN, variant, claim, call, make or d.plain(d.matrices), **fields)


def streamed(function, space, **fixed):
    """The same from a mapped file."""

    def call(data, given, **options):
        path = d.saved(given.folder / "records.npy", data["X"])
        X = options.pop("X", np.load(path, mmap_mode="r"))
        return function(space, X, **{**given.keywords, **fixed, **options})

    return call


def weighted(seed):
    """Records with public weights."""
    return {"X": d.matrices(seed), "weights": np.ones(d.N) / d.N}


def own_weights(seed):
    """Records with private weights."""
    return {"X": d.matrices(seed), "weights": np.ones(d.N)}


def twice(result):
    """Coordinates and sensitivity of a sphere's mean: the logarithm at the centre lengthens a
    distance within the cap by at most r / sin r.
    """
    found, bound = coordinates(result)
    return found, bound * 0.5 / np.sin(0.5)


def first_answer(result):
    """The first noisy mean, and how far one record moves it."""
    told = result.details
    return told["answers"][0], 2 * told["radii"][0] / told["n"] * (1 + 1e-9)


SMALL = Budget(0.3, 1e-6)  # of one stage with a public prior
WRONG_PRIOR = (
    *COMMON,
    Refusal({"mechanism": "wrapped-gaussian"}),
    Refusal({"weights": np.ones(60)}),
    Refusal({"n_min": 10}),
    Refusal({"count_outside": True}),
    Refusal({"budget": PURE}),
    Refusal({"ball": riemdp.PublicPrior(d.FLAT, d.short_rows(0))}, why="a prior for another space"),
)


def with_prior(variant, make=None, **fields):
    """A row of `private_frechet_mean` with public records."""
    fields = {"refusals": WRONG_PRIOR, "moved": first_answer} | fields
    return mean(variant, make, ball=d.PRIOR, claim="public prior", **fields)


MEANS = (
    mean(
        "wrapped-gaussian",
        mechanism="wrapped-gaussian",
        moved=coordinates,
        refusals=(
            *COMMON,
            *WRONG_BALL,
            Refusal({"X": np.eye(2)}, why="one record without its axis"),
            Refusal({"ball": None}),
            Refusal({"ball": Ball(-np.eye(2), 1.0)}, why="a centre that is no point"),
            Refusal({"mechanism": "none"}),
            Refusal({"count_outside": "yes"}),
            Refusal({"n_min": 0}),
            Refusal({"n_min": "many"}),
            Refusal({"weights": -np.ones(60)}),
            Refusal({"weights": np.ones(3)}),
            Refusal({"budget": PURE}),
            Refusal({"ball": Ball(np.eye(2), 1e9)}, why="huge ball"),
        ),
    ),
    mean("wrapped-laplace", mechanism="wrapped-laplace", budget=PURE, moved=coordinates),
    mean(
        "riemannian-laplace",
        mechanism="riemannian-laplace",
        budget=PURE,
        refusals=(*COMMON, *WRONG_BALL),
    ),
    mean("k-norm-gradient", mechanism="k-norm-gradient", budget=PURE),
    mean(
        "tangent-mean",
        mechanism="tangent-mean",
        moved=coordinates,
        refusals=(
            *COMMON,
            *WRONG_BALL,
            Refusal({"weights": np.ones(60)}),
            Refusal({"n_min": 10}),
        ),
    ),
    mean(
        "extrinsic-gaussian",
        d.plain(d.directions),
        space=d.SPHERE,
        ball=d.CAP,
        mechanism="extrinsic-gaussian",
    ),
    mean(
        "extrinsic-laplace",
        d.plain(d.directions),
        space=d.SPHERE,
        ball=d.CAP,
        mechanism="extrinsic-laplace",
        budget=PURE,
    ),
    *(
        mean(
            name,
            mechanism=name,
            claim="DP-RSVRG" if name == "dp-rsvrg" else "DP-RGD/RSGD",
            blocks=name == "dp-rsvrg",
            refusals=(
                *COMMON,
                *WRONG_BALL,
                Refusal({"budget": PURE}),
                Refusal({"weights": np.ones(60)}),
                Refusal({"n_min": 10}),
                Refusal({"count_outside": True}),
            ),
        )
        for name in ("dp-rgd", "dp-rsgd", "dp-rsvrg")
    ),
    mean("auto"),
    mean("weights", weighted, mechanism="wrapped-gaussian", moved=coordinates),
    mean(
        "add-or-remove-one",
        mechanism="wrapped-gaussian",
        n_min=40,
        empty="released",
        refusals=(
            *WRONG_BUDGET,
            *WRONG_RNG,
            Refusal({"n_min": 0}),
            Refusal({"n_min": "many"}),
            Refusal({"n_min": 2.5}),
            Refusal({"mechanism": "dp-rgd"}),
            Refusal({"mechanism": "dp-rsgd"}),
            Refusal({"mechanism": "dp-rsvrg"}),
            Refusal({"weights": np.ones(1)}),
            Refusal({"weights": 1.0}),
            Refusal({"budget": PURE}),
            Refusal({"X": np.zeros((60, 7))}),
            *WRONG_BALL,
        ),
    ),
    mean(
        "add-or-remove-one with weights",
        own_weights,
        mechanism="wrapped-gaussian",
        n_min=40,
        empty="released",
    ),
    mean(
        "people",
        d.of_people(d.matrices),
        mechanism="wrapped-gaussian",
        moved=coordinates,
        refusals=(*COMMON, *WRONG_BALL, *WRONG_GROUPS, Refusal({"weights": np.ones(63)})),
    ),
    mean(
        "sphere",
        d.plain(d.directions),
        space=d.SPHERE,
        ball=d.CAP,
        mechanism="wrapped-gaussian",
        moved=twice,
        refusals=(*COMMON, *WRONG_BALL, Refusal({"ball": Ball(d.SPHERE.origin, 3.0)}, why="wide")),
    ),
    mean(
        "shapes",
        d.plain(d.outlines),
        space=d.SHAPES,
        ball=Ball(d.SHAPES.origin, 1.0),
        mechanism="tangent-mean",
        moved=coordinates,
        refusals=(*COMMON, *WRONG_BALL),
    ),
    mean(
        "flat",
        d.plain(d.short_rows),
        space=d.FLAT,
        ball=d.CUBE,
        mechanism="wrapped-gaussian",
        moved=coordinates,
    ),
    Entry(
        MEAN,
        "mapped file",
        "mean in a public ball",
        streamed(riemdp.private_frechet_mean, d.SPD, ball=d.BALL, mechanism="wrapped-gaussian"),
        d.plain(d.matrices),
        lists=False,
        moved=coordinates,
        refusals=(*WRONG_BUDGET, *WRONG_RNG, *WRONG_BALL),
    ),
    mean(
        "private ball",
        ball=None,
        claim="private ball",
        refusals=(
            *COMMON,
            Refusal({"mechanism": "wrapped-gaussian"}),
            Refusal({"weights": np.ones(60)}),
            Refusal({"n_min": 10}),
            Refusal({"count_outside": True}),
            Refusal({"budget": Budget(0.01, 1e-6)}, why="too few records"),
        ),
    ),
    mean("private ball in an outer ball", ball=d.SEARCH, claim="private ball"),
    mean("private ball, pure", ball=None, claim="private ball", budget=PURE),
    mean(
        "people, private ball",
        d.of_people(d.matrices),
        ball=None,
        claim="private ball",
        refusals=(*COMMON, *WRONG_GROUPS),
    ),
    Entry(
        MEAN,
        "private ball from a mapped file",
        "private ball",
        streamed(riemdp.private_frechet_mean, d.SPD, ball=None),
        d.plain(d.matrices),
        lists=False,
        refusals=WRONG_BUDGET,
    ),
    with_prior("public prior, one stage", budget=SMALL),
    with_prior("public prior, two stages"),
    with_prior(
        "people, public prior",
        d.of_people(d.matrices),
        budget=SMALL,
        refusals=(*WRONG_PRIOR, *WRONG_GROUPS),
    ),
    Entry(
        MEAN,
        "public prior, two stages from a mapped file",
        "public prior",
        streamed(riemdp.private_frechet_mean, d.SPD, ball=d.PRIOR),
        d.plain(d.matrices),
        lists=False,
        moved=first_answer,
        refusals=WRONG_BUDGET,
    ),
)


def function(name, variant, claim, *middle, make=None, **facts):
    """A row of another function of `riemdp.releases`."""
    fields = {k: facts.pop(k) for k in list(facts) if k in Entry.__dataclass_fields__}
    fields.setdefault("refusals", COMMON)
    call = of_space(getattr(riemdp, name), d.SPD, *middle, **facts)
    data = make or d.plain(d.matrices)
    return Entry(f"riemdp.{name}", variant, claim, call, data, **fields)


def comparison(variant, make=d.of_samples, **facts):
    """A row of `private_comparison`: the release that its test is made of."""
    fields = {k: facts.pop(k) for k in list(facts) if k in Entry.__dataclass_fields__}
    refusals = (*WRONG_SAMPLES, *COMMON, *fields.pop("refusals", ()))

    def call(*given, **options):
        return of_space(riemdp.private_comparison, d.SPD, **facts)(*given, **options).release

    name, claim = "riemdp.private_comparison", fields.pop("claim", "class means")
    return Entry(name, variant, claim, call, make(d.matrices), refusals=refusals, **fields)


def two_arrays(seed):
    """The records of two samples."""
    return {"A": d.matrices(seed), "B": d.matrices(seed + 1)}


def of_two_arrays(function):
    """The release of a comparison of records that come as two arrays."""

    def call(data, given, **options):
        keywords = {**given.keywords, "ball": d.BALL, **data, **options}
        return function(d.SPD, keywords.pop("A"), keywords.pop("B"), **keywords).release

    return call


def pairs_of_people(seed):
    """A pair of everybody, and four of the first."""
    whose = d.whose(d.PEOPLE + 3)
    n = len(whose)
    return {"A": d.matrices(seed, n), "B": d.matrices(seed + 1, n), "groups": whose}


def of_first_sample(result):
    """The noisy vector of the sample that the record is in, and how far one record moves it."""
    return result.details["answers"][0], float(result.sensitivity)


WRONG_SAMPLES = (
    Refusal({"samples": None}),
    Refusal({"samples": np.zeros(60)}, why="one sample"),
    Refusal({"samples": np.arange(3) % 2}, why="labels of other records"),
    Refusal({"samples": "ab"}),
    Refusal({"samples": [None] * 60}, why="no labels"),
    Refusal({"of": "everybody"}),
)
TWICE = Refusal({"samples": np.arange(d.PEOPLE + 3) % 2}, why="a person in two samples")


def direction(variant, make, *, space=d.SPHERE, refusals=(), **facts):
    """A row of `private_mean_direction`."""
    name = "riemdp.private_mean_direction"
    call = of_space(riemdp.private_mean_direction, space)
    refused = (*COMMON, *refusals)
    return Entry(
        name, variant, "mean direction", call, make, moved=coordinates, refusals=refused, **facts
    )


DIRECTIONS = (
    direction("", d.plain(d.directions)),
    direction("axes", d.plain(d.axes), space=d.LINES, budget=PURE),
    direction("people", d.of_people(d.directions), refusals=WRONG_GROUPS),
    direction("people, axes", d.of_people(d.axes), space=d.LINES, refusals=WRONG_GROUPS),
)


def curve(variant, make=d.targeted, *, refusals=(), **facts):
    """A row of `private_geodesic_regression`."""
    return function(
        "private_geodesic_regression",
        variant,
        facts.pop("claim", "regression"),
        make=d.with_covariates(make(d.matrices)),
        moved=of_first_sample,
        refusals=(*COMMON, *WRONG_COVARIATES, *refusals),
        **{"t_range": (-1.0, 1.0)} | facts,
    )


WRONG_COVARIATES = (
    Refusal({"t": np.zeros(3)}, why="covariates of other records"),
    Refusal({"t": None}),
    Refusal({"t": np.zeros((60, 1))}, why="a column of covariates"),
    Refusal({"t": "ages"}),
    Refusal({"t_range": None}),
    Refusal({"t_range": (1.0, -1.0)}, why="a range in the wrong order"),
    Refusal({"t_range": 5.0}),
    Refusal({"t_range": [(0.0, 1.0), (0.0, 1.0)]}, why="a range of two covariates"),
    Refusal({"t_range": Ball(np.eye(2), 1.0)}, why="a ball of matrices"),
)
FEW = Refusal({"budget": Budget(0.01, 1e-6)}, why="too few records")
CURVES = (
    curve("public ball", ball=d.BALL, refusals=WRONG_BALL),
    curve("private ball", ball=None, refusals=(FEW,)),
    curve("people", d.targeted_people, ball=d.BALL, refusals=WRONG_GROUPS),
)

PEOPLE = d.of_people(d.matrices)
START = np.stack([np.eye(2), np.diag([3.0, 1.0])])  # centres of clusters
CLUSTERS = (
    *(Refusal({"clusters": wrong}) for wrong in (0, -1, 2.5, True, None, "two", 61)),
    Refusal({"clusters": np.zeros((2, 7))}),
    Refusal({"clusters": np.zeros((0, 2, 2))}, why="no centre"),
    Refusal({"clusters": np.full((1, 2, 2), np.nan)}, why="a centre of NaN"),
)


def clusters(variant, *, refusals=(), **facts):
    """A row of `private_k_means`, of one round: that is what its first answer shows."""
    facts = {"ball": d.BALL, "clusters": START, "rounds": 1, "moved": of_first_sample} | facts
    claim, refused = facts.pop("claim", "class means"), (*COMMON, *CLUSTERS, *refusals)
    return function("private_k_means", variant, claim, refusals=refused, **facts)


OTHERS = (
    clusters("public ball", refusals=(*WRONG_BALL, Refusal({"rounds": 0}))),
    clusters("public ball, pure", budget=PURE),
    clusters("private ball", ball=None, claim="private ball", moved=None, refusals=(FEW,)),
    clusters("people", make=PEOPLE, refusals=WRONG_GROUPS),
    *CURVES,
    comparison("public ball", ball=d.BALL, moved=of_first_sample, refusals=WRONG_BALL),
    comparison("public ball, pure", ball=d.BALL, moved=of_first_sample, budget=PURE),
    comparison("private ball", ball=None, claim="private ball"),
    Entry(
        "riemdp.private_two_sample",
        "",
        "class means",
        of_two_arrays(riemdp.private_two_sample),
        two_arrays,
        records="A",
        moved=of_first_sample,
        refusals=(
            *WRONG_BUDGET,
            *WRONG_RNG,
            *WRONG_BALL,
            Refusal({"A": "records"}),
            Refusal({"B": None}),
            Refusal({"A": np.zeros((60, 7))}),
            Refusal({"groups": np.zeros(60)}, why="labels of both in one"),
            Refusal({"groups": (5, 6)}, why="a number for labels"),
            Refusal({"groups": (np.zeros((30, 2)), np.ones(60))}, why="labels in two columns"),
            Refusal({"groups": (np.zeros(60), np.ones(59))}, why="labels of other records"),
            Refusal({"groups": (np.zeros(60), np.zeros(60))}, why="a person in two samples"),
        ),
    ),
    Entry(
        "riemdp.private_paired_samples",
        "people",
        "class means",
        of_two_arrays(riemdp.private_paired_samples),
        pairs_of_people,
        records="A",
        moved=of_first_sample,
        refusals=(
            *WRONG_BUDGET,
            *WRONG_BALL,
            Refusal({"B": np.tile(np.eye(2), (5, 1, 1))}, why="fewer of the second"),
            Refusal({"groups": np.zeros(5)}, why="labels of other pairs"),
            Refusal({"of": "everybody"}),
        ),
    ),
    comparison(
        "people",
        d.people_of_samples,
        ball=d.BALL,
        moved=of_first_sample,
        refusals=(*WRONG_GROUPS, TWICE),
    ),
    comparison(
        "people, private ball",
        d.people_of_samples,
        ball=None,
        claim="private ball",
        refusals=(*WRONG_GROUPS, TWICE),
    ),
    *DIRECTIONS,
    function("private_ball", "", "private ball", ball=d.SEARCH),
    function("private_ball", "pure", "private ball", ball=d.SEARCH, budget=PURE),
    function("private_ball", "people", "private ball", ball=d.SEARCH, make=PEOPLE),
    function(
        "private_frechet_variance",
        "public ball",
        "variance",
        ball=d.BALL,
        moved=the_value,
        refusals=(*COMMON, *WRONG_BALL),
    ),
    function("private_frechet_variance", "private ball", "private ball", ball=None),
    function(
        "private_frechet_variance",
        "people",
        "variance",
        ball=d.BALL,
        make=PEOPLE,
        moved=the_value,
        refusals=(*COMMON, *WRONG_BALL, *WRONG_GROUPS),
    ),
    function(
        "private_geometric_median",
        "",
        "median",
        refusals=(
            *COMMON,
            Refusal({"budget": PURE}),
            Refusal({"ball": "near"}),
            Refusal({"budget": Budget(0.01, 1e-6)}, why="too few records"),
        ),
    ),
    function(
        "private_geometric_median",
        "people",
        "median",
        make=PEOPLE,
        refusals=(*COMMON, *WRONG_GROUPS),
    ),
)


def mechanism(kind, variant="", *, claim="one value", make=None, value=True, **facts):
    """A row of a mechanism's own `release`."""
    fields = {k: facts.pop(k) for k in list(facts) if k in Entry.__dataclass_fields__}
    fields.setdefault("refusals", (*WRONG_RNG, Refusal({"X": "value"}), Refusal({"X": None})))
    first = facts.pop("first", ())

    def call(data, given, **options):
        budget = options.pop("budget", given.budget)
        name = "epsilon" if "epsilon" in kind.__dataclass_fields__ else "budget"
        X, rng = options.pop("X", data["X"]), options.pop("rng", given.rng)
        made = kind(d.SPD, *first, **{name: budget, **facts, **options})
        return made.release(X, rng, ledger=given.ledger)

    def one(seed):
        return {"X": d.matrices(seed)[0]}

    invalid = REFUSED if value else COUNTED
    name = f"riemdp.mechanisms.{kind.__name__}.release"
    data = make or (one if value else d.plain(d.matrices))
    return Entry(
        name, variant, claim, call, data, value=value, lists=not value, invalid=invalid, **fields
    )


def of_records(kind, ball, *, claim, moved=None, **facts):
    """A row of a mechanism whose value are records."""

    def call(data, given, **options):
        budget = options.pop("budget", given.budget)
        X, rng = options.pop("X", data["X"]), options.pop("rng", given.rng)
        made = kind(d.SPD, ball, **{"n": d.N, "budget": budget, **facts, **options})
        return made.release(X, rng, ledger=given.ledger)

    name = f"riemdp.mechanisms.{kind.__name__}.release"
    return Entry(name, "", claim, call, d.plain(d.matrices), moved=moved, refusals=COMMON)


def loss_gradient(point):
    """Of half the squared distance from the identity."""
    return -d.SPD.log(point, np.eye(2))


def across(result):
    """The noisy vector of a value that is moved into the ball first, and the ball's diameter."""
    return np.asarray(result.observation.coordinates), 2 * float(d.BALL.radius)


BASE = np.eye(2)
MECHANISMS = (
    mechanism(
        m.TangentGaussian,
        first=(BASE,),
        sensitivity=0.1,
        make=lambda seed: {"X": np.asarray(d.SPD.log(BASE, d.matrices(seed)[0]))},
    ),
    mechanism(m.WrappedGaussian, first=(BASE,), sensitivity=0.1),
    mechanism(
        m.WrappedGaussian,
        "in a ball",
        first=(BASE,),
        sensitivity=0.1,
        ball=d.BALL,
        moved=across,
    ),
    mechanism(m.WrappedLaplace, first=(BASE,), sensitivity=0.1, budget=PURE),
    mechanism(m.RiemannianLaplace, sensitivity=0.1, budget=PURE),
    mechanism(m.RiemannianLaplace, "in a ball", sensitivity=0.1, ball=d.BALL, budget=PURE),
    mechanism(
        m.KNormGradient,
        sensitivity=0.1,
        objective_gradient=loss_gradient,
        make=lambda seed: {"X": BASE},
        budget=PURE,
        anywhere=False,
    ),
    mechanism(m.ExtrinsicGaussian, sensitivity=0.1),
    mechanism(m.ExtrinsicLaplace, sensitivity=0.1, budget=PURE),
    of_records(m.AdaptiveMean, AdaptiveBall(), claim="private ball"),
    of_records(m.PrivateBall, d.SEARCH, claim="private ball"),
    of_records(m.AdaptiveVariance, AdaptiveBall(), claim="private ball"),
    of_records(m.VarianceNoise, d.BALL, claim="variance", moved=the_value),
    of_records(m.PriorMean, d.PRIOR, claim="public prior", moved=first_answer),
    of_records(m.TangentMeanNoise, d.BALL, claim="mean in a public ball", moved=coordinates),
    of_records(m.TangentCovarianceNoise, d.BALL, claim="tangent covariance", moved=the_value),
)
