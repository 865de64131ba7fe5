"""Rows of the scikit-learn estimators: each with records counted, and once with its own default,
which refuses records that are no points.
"""

from __future__ import annotations

import inspect

import numpy as np

import riemdp
from riemdp import Ball, Budget, PublicPrior

from . import data as d
from .entry import PURE, REFUSED, Entry, Refusal, rest
from .rows_of_functions import WRONG_BUDGET, WRONG_GROUPS

WRONG = (
    *WRONG_BUDGET,
    Refusal({"X": "records"}),
    Refusal({"X": 5.0}),
    Refusal({"X": None}),
    Refusal({"random_state": "seed"}),
    Refusal({"random_state": -1}),
    Refusal({"on_invalid": "keep"}),
    Refusal({"sample_weight": np.ones(d.N)}),
)
MATRICES = (
    *WRONG,
    Refusal({"ball": 1.0}),
    Refusal({"ball": Ball(np.eye(3), 1.0)}),
    Refusal({"metric": "none"}),
)
LABELS = (
    Refusal({"y": np.zeros(3)}),
    Refusal({"y": None}),
    Refusal({"labels": "secret"}),
    Refusal({"labels": "private"}),
    Refusal({"classes": []}),
    Refusal({"classes": [0, 1, 2, 3]}, why="a class without a record"),
    Refusal({"groups": np.arange(d.N)}, why="groups with public labels"),
)


def fitted(kind, **fixed):
    """Makes an estimator of `kind`, fits it inside the ledger, and gives it back."""
    of_fit = {*inspect.signature(kind.fit).parameters, "sample_weight"}

    def call(data, given, **options):
        seed = given.rng
        whole = {"budget": given.budget, "random_state": seed, "X": data["X"]}
        whole |= {**fixed, **rest("X", data), **options}
        to_fit = {name: whole.pop(name) for name in list(whole) if name in of_fit}
        model = kind(**whole)
        with given.ledger:
            return Fitted(model.fit(**to_fit))

    return call


class Fitted:
    """An estimator, with what it released as its value."""

    def __init__(self, model):
        self.model = model
        self.guarantee = model.guarantee_
        held = (getattr(model, name, None) for name in PUBLISHED)
        self.value = [v for v in held if v is not None]


PUBLISHED = (
    "mean_",
    "covmeans_",
    "components_",
    "reference_",
    "coef_",
    "intercept_",
    "centers_",
    "scales_",
    "rotations_",
    "explained_variance_",
    "row_norm_",
    "residual_std_",
    "best_score_",
)


def model(kind, variant, claim, make=None, **facts):
    """A row of an estimator; what is no field of `Entry` is a parameter of it."""
    fields = {k: facts.pop(k) for k in list(facts) if k in Entry.__dataclass_fields__}
    fields.setdefault("refusals", MATRICES)
    if facts.get("on_invalid") == "raise":
        fields["invalid"] = REFUSED
    fields.setdefault("private_labels", facts.get("labels") == "private")
    facts.setdefault("on_invalid", "center")
    name = f"riemdp.{kind.__name__}"
    data = make or d.plain(d.matrices)
    return Entry(name, variant, claim, fitted(kind, **facts), data, seeded=False, **fields)


def moment(result):
    """The leading component's projection, which a change of the second moment by sqrt(2) / n turns
    by at most twice that over the gap of eigenvalues, here at least a half (Davis and Kahan).
    """
    v = np.asarray(result.model.components_[0])
    return np.outer(v, v), np.sqrt(2) * 2 * (np.sqrt(2) / d.N) / 0.5


def inverse(record):
    """On the other side of the identity; what has no inverse stays."""
    try:
        return np.linalg.inv(record)
    except (np.linalg.LinAlgError, TypeError, ValueError):
        return record


def answer(result):
    """The noisy vector of a classifier with a prior, or of a regression."""
    one = result.model.release_
    return one.details["answers"][0], one.sensitivity


def domains(seed):
    """Matrices of two domains."""
    return {"X": d.matrices(seed), "domains": np.array(["a", "b"])[np.arange(d.N) % 2]}


def domains_of_classes(seed):
    """Matrices of two domains, each with two classes."""
    return domains(seed) | {"y": np.arange(d.N) % 13 // 7}


def people_of_domains(seed):
    """Matrices of people with classes, each person in one of two domains."""
    made = LABELLED_PEOPLE(seed)
    classes, domain = np.arange(len(made["y"])) % 13 // 7, np.array(["a", "b"])
    return made | {"y": classes, "domains": domain[made["groups"] % 2]}


MEAN, MDM, PCA = riemdp.PrivateFrechetMean, riemdp.PrivateMDM, riemdp.PrivatePCA
TS, SPACE = riemdp.PrivateTSClassifier, riemdp.PrivateTangentSpace
REGRESSOR = riemdp.PrivateTSRegressor
CENTER, PGA = riemdp.PrivateTLCenter, riemdp.PrivatePGA
SCALE, ROTATE = riemdp.PrivateTLScale, riemdp.PrivateTLRotate
WITH_PRIOR = {"ball": d.CLASS_PRIOR, "moved": answer}
IN_BALL, FOUND = {"ball": d.BALL}, {"ball": d.SEARCH}
OF_MEAN = tuple(r for r in MATRICES if "metric" not in r.options)
PRIVATE = {"labels": "private", "classes": [0, 1]}
SEARCH = riemdp.PrivateSearchCV
HELD = {
    "runs": 4,
    "held_out": 0.5,
    "moved": lambda result: ([result.model.best_score_], result.model.release_.sensitivity),
}
SEARCHES = (
    *WRONG,
    Refusal({"y": np.zeros(3)}),
    Refusal({"y": None}),
    Refusal({"estimator": None}),
    Refusal({"estimator": riemdp.PrivateMDM(budget=Budget(1.0, 1e-5))}, why="two budgets"),
    Refusal({"param_grid": None}),
    Refusal({"param_grid": {"budget": [Budget(1.0, 1e-5)]}}, why="budgets to choose"),
    Refusal({"param_grid": {"labels": ["public", "private"]}}, why="labels to choose"),
    Refusal({"runs": 0}),
    Refusal({"held_out": 1.0}),
    Refusal({"groups": np.arange(d.N)}, why="groups with public labels"),
)
ROWS = d.plain(d.rows)
LABELLED = d.labelled(d.matrices)
LABELLED_PEOPLE = d.labelled_people(d.matrices)
OF_PRIOR = (
    *MATRICES,
    Refusal({"budget": PURE}, why="a prior with delta = 0"),
    Refusal({"count_outside": True}),
    Refusal({"recenter": "yes"}),
    Refusal({"ball": PublicPrior(d.FLAT, d.short_rows(0))}, why="a prior for another space"),
    Refusal({"ball": PublicPrior(d.SPD, d.matrices(0), y=np.arange(d.N) % 3)}, why="other classes"),
)
TARGETED = {"target_range": (-1.0, 1.0), "moved": answer, "private_labels": True}
TARGETS = (
    *MATRICES,
    Refusal({"y": np.zeros(3)}),
    Refusal({"y": None}),
    Refusal({"y": np.zeros((d.N, 1))}, why="a column of targets"),
    Refusal({"y": "targets"}),
    Refusal({"target_range": None}),
    Refusal({"target_range": (1.0, -1.0)}, why="a range in the wrong order"),
    Refusal({"target_range": (0.0, float("nan"))}, why="a range of NaN"),
    Refusal({"target_range": (0.0, 1e-300)}, why="a range of no length"),
    Refusal({"target_range": 5.0}),
    Refusal({"alpha": -1.0}),
    Refusal({"alpha": "auto"}),
    Refusal({"ball": d.CLASS_PRIOR}, why="a prior"),
)
WITHOUT_PRIOR = (Refusal({"ball": d.CLASS_PRIOR}, why="a prior that it has no use for"),)
FEW = (Refusal({"budget": Budget(0.01, 1e-6)}, why="too few records"),)

ESTIMATORS = (
    model(
        MEAN,
        "public ball",
        "mean in a public ball",
        manifold=d.SPD,
        **IN_BALL,
        refusals=(
            *OF_MEAN,
            Refusal({"mechanism": "none"}),
            Refusal({"n_min": 0}, why="n_min = 0"),
            Refusal({"n_min": 10, "mechanism": "dp-rgd"}),
        ),
    ),
    model(MEAN, "private ball", "private ball", manifold=d.SPD, refusals=(*OF_MEAN, *FEW)),
    model(
        MEAN,
        "public prior, two stages",
        "public prior",
        manifold=d.SPD,
        ball=d.PRIOR,
        refusals=OF_MEAN,
    ),
    model(
        MEAN,
        "people",
        "mean in a public ball",
        d.of_people(d.matrices),
        manifold=d.SPD,
        **IN_BALL,
        refusals=(*OF_MEAN, *WRONG_GROUPS),
    ),
    model(
        MEAN,
        "refusing",
        "mean in a public ball",
        manifold=d.SPD,
        on_invalid="raise",
        **IN_BALL,
        refusals=OF_MEAN,
    ),
    model(
        PCA,
        "",
        "PCA",
        ROWS,
        n_components=1,
        row_norm=1.0,
        center=np.zeros(3),
        moved=moment,
        refusals=(
            *WRONG,
            Refusal({"row_norm": None}),
            Refusal({"row_norm": 0.0}),
            Refusal({"row_norm": "long"}),
            Refusal({"n_components": None}),
            Refusal({"n_components": 4}),
            Refusal({"n_components": 0}),
            Refusal({"row_norm": -1.0}),
            Refusal({"center": np.zeros(5)}),
            Refusal({"center": np.full(3, np.nan)}),
        ),
    ),
    model(PCA, "pure", "PCA", ROWS, n_components=1, row_norm=1.0, budget=PURE, refusals=WRONG),
    model(
        PCA,
        "private row norm",
        "PCA",
        ROWS,
        n_components=1,
        row_norm="private",
        center=np.zeros(3),
        refusals=(*WRONG, *FEW),
    ),
    model(
        PCA,
        "people",
        "PCA",
        d.of_people(d.rows),
        n_components=1,
        row_norm=1.0,
        moved=moment,
        refusals=(*WRONG, *WRONG_GROUPS),
    ),
    model(
        PCA,
        "people, private row norm",
        "PCA",
        d.of_people(d.rows),
        n_components=1,
        row_norm="private",
        refusals=(*WRONG, *WRONG_GROUPS, *FEW),
    ),
    model(
        PCA,
        "refusing",
        "PCA",
        ROWS,
        n_components=1,
        row_norm=1.0,
        on_invalid="raise",
        refusals=WRONG,
    ),
    model(
        MDM,
        "public ball",
        "class means",
        LABELLED,
        **IN_BALL,
        refusals=(*MATRICES, *LABELS, *WITHOUT_PRIOR),
    ),
    model(
        MDM,
        "private ball",
        "class means",
        LABELLED,
        **FOUND,
        refusals=(
            *MATRICES,
            *LABELS,
            *FEW,
            Refusal({"count_outside": True}),
        ),
    ),
    model(
        MDM,
        "private labels",
        "class means",
        LABELLED,
        **IN_BALL,
        **PRIVATE,
        refusals=(
            *MATRICES,
            Refusal({"classes": None}),
            Refusal({"classes": []}),
        ),
    ),
    model(MDM, "private labels, private ball", "class means", LABELLED, **FOUND, **PRIVATE),
    model(
        MDM,
        "people",
        "class means",
        LABELLED_PEOPLE,
        **IN_BALL,
        **PRIVATE,
        refusals=(*MATRICES, *WRONG_GROUPS),
    ),
    model(MDM, "people, private ball", "class means", LABELLED_PEOPLE, **FOUND, **PRIVATE),
    model(MDM, "refusing", "class means", LABELLED, on_invalid="raise", **IN_BALL),
    model(
        TS,
        "public ball",
        "classifier",
        LABELLED,
        **IN_BALL,
        refusals=(*MATRICES, *LABELS, Refusal({"recenter": True})),
    ),
    model(TS, "private ball", "classifier", LABELLED, **FOUND, refusals=(*MATRICES, *LABELS, *FEW)),
    model(TS, "private labels", "classifier", LABELLED, **IN_BALL, **PRIVATE),
    model(
        TS,
        "people",
        "classifier",
        LABELLED_PEOPLE,
        **IN_BALL,
        **PRIVATE,
        refusals=(*MATRICES, *WRONG_GROUPS),
    ),
    model(TS, "prior", "classifier", LABELLED, **WITH_PRIOR, refusals=(*OF_PRIOR, *LABELS)),
    model(TS, "prior, private labels", "classifier", LABELLED, **WITH_PRIOR, **PRIVATE),
    model(
        TS,
        "people, prior",
        "classifier",
        LABELLED_PEOPLE,
        **WITH_PRIOR,
        **PRIVATE,
        recenter=True,
        opposite=inverse,
        refusals=(*OF_PRIOR, *WRONG_GROUPS),
    ),
    model(TS, "refusing", "classifier", LABELLED, on_invalid="raise", **IN_BALL),
    model(
        REGRESSOR,
        "public ball",
        "regression",
        d.targeted(d.matrices),
        **TARGETED,
        **IN_BALL,
        refusals=TARGETS,
    ),
    model(
        REGRESSOR,
        "private ball",
        "regression",
        d.targeted(d.matrices),
        **TARGETED,
        **FOUND,
        refusals=(*TARGETS, *FEW, Refusal({"count_outside": True})),
    ),
    model(
        REGRESSOR,
        "people",
        "regression",
        d.targeted_people(d.matrices),
        **TARGETED,
        **IN_BALL,
        refusals=(*TARGETS, *WRONG_GROUPS),
    ),
    model(
        REGRESSOR,
        "refusing",
        "regression",
        d.targeted(d.matrices),
        on_invalid="raise",
        **TARGETED | {"private_labels": False},
        **IN_BALL,
        refusals=TARGETS,
    ),
    model(
        SEARCH,
        "held out",
        "search",
        LABELLED,
        estimator=MDM(ball=d.BALL),
        param_grid={"count_outside": [False, True]},
        **HELD,
        refusals=SEARCHES,
    ),
    model(
        SEARCH,
        "people, held out",
        "search",
        LABELLED_PEOPLE,
        estimator=TS(**IN_BALL, **PRIVATE),
        opposite=inverse,
        param_grid={"count_outside": [False, None]},
        **HELD,
        private_labels=True,
        refusals=(*WRONG, *WRONG_GROUPS),
    ),
    model(
        SEARCH,
        "refusing, held out",
        "search",
        d.targeted(d.matrices),
        on_invalid="raise",
        estimator=REGRESSOR((-1.0, 1.0), ball=d.BALL),
        param_grid={"alpha": [0.1]},
        **HELD,
        refusals=WRONG,
    ),
    model(SPACE, "public ball", "mean in a public ball", **IN_BALL),
    model(
        SPACE, "private ball", "private ball", **FOUND, refusals=(*MATRICES, *WITHOUT_PRIOR, *FEW)
    ),
    model(
        SPACE,
        "people",
        "mean in a public ball",
        d.of_people(d.matrices),
        **IN_BALL,
        refusals=(*MATRICES, *WRONG_GROUPS),
    ),
    model(SPACE, "refusing", "mean in a public ball", on_invalid="raise", **IN_BALL),
    model(
        CENTER,
        "two domains",
        "mean in a public ball",
        domains,
        **IN_BALL,
        refusals=(
            *MATRICES,
            Refusal({"domains": np.array(["a"])}),
            Refusal({"target_domain": "c"}),
        ),
    ),
    model(
        CENTER,
        "people",
        "mean in a public ball",
        d.of_people(d.matrices),
        **IN_BALL,
        refusals=(*MATRICES, *WRONG_GROUPS),
    ),
    model(CENTER, "refusing", "mean in a public ball", domains, on_invalid="raise", **IN_BALL),
    model(
        SCALE,
        "two domains",
        "variance",
        domains,
        **IN_BALL,
        refusals=(
            *MATRICES,
            Refusal({"target_domain": "c"}),
            Refusal({"final_dispersion": 0.0}),
            Refusal({"centered_data": True, "ball": None}),
            Refusal({"metric": "wasserstein", "ball": Ball(np.eye(2), 0.3)}),
        ),
    ),
    model(SCALE, "centred", "variance", domains, centered_data=True, **IN_BALL),
    model(SCALE, "people", "variance", d.of_people(d.matrices), **IN_BALL),
    model(
        ROTATE,
        "public labels",
        "class means",
        domains_of_classes,
        target_domain="a",
        **IN_BALL,
        refusals=(
            *MATRICES,
            *LABELS,
            Refusal({"target_domain": ""}),
            Refusal({"target_domain": "last"}),
            Refusal({"labels": "private"}, why="private labels without classes"),
        ),
    ),
    model(
        ROTATE,
        "people",
        "class means",
        people_of_domains,
        target_domain="a",
        **IN_BALL,
        **PRIVATE,
        refusals=(*MATRICES, *WRONG_GROUPS),
    ),
    model(
        PGA,
        "public ball",
        "tangent covariance",
        manifold=d.SPD,
        n_components=1,
        **IN_BALL,
        refusals=(
            *OF_MEAN,
            Refusal({"n_components": 9}),
            Refusal({"n_components": 0}),
            Refusal({"manifold": None}),
            Refusal({"manifold": "spd"}),
            Refusal({"mean_share": 0.0}),
            Refusal({"mean_share": 1.0}),
        ),
    ),
    model(PGA, "private ball", "private ball", manifold=d.SPD, n_components=1, refusals=OF_MEAN),
    model(
        PGA,
        "people",
        "tangent covariance",
        d.of_people(d.matrices),
        manifold=d.SPD,
        n_components=1,
        **IN_BALL,
        refusals=(*OF_MEAN, *WRONG_GROUPS),
    ),
    model(
        PGA,
        "refusing",
        "tangent covariance",
        manifold=d.SPD,
        n_components=1,
        on_invalid="raise",
        **IN_BALL,
        refusals=OF_MEAN,
    ),
)
