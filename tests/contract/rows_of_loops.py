"""Rows of private optimisers, principal eigenvectors, and federated runs."""

from __future__ import annotations

import numpy as np

import riemdp
from riemdp import DPRGD, DPRSGD, DPRSVRG, PriRFed, federated, problems
from riemdp.federated import Setup, Site

from . import data as d
from .entry import PURE, Entry, Refusal, rest, the_value
from .rows_of_functions import WRONG_BUDGET, WRONG_GROUPS, WRONG_RNG

PROBLEM = problems.frechet_mean(d.SPD, ball=d.BALL)
START = np.eye(2)
RATE, CLIP = 0.01, 1.0
ADD_REMOVE = "add-or-remove-one"
WRONG_DATA = (
    Refusal({"X": "records"}),
    Refusal({"X": 5.0}),
    Refusal({"X": None}),
    Refusal({"X": np.zeros((60, 7))}),
)
OF_RUN = (
    *WRONG_RNG,
    *WRONG_DATA,
    Refusal({"budget": "all of it"}),
    Refusal({"budget": PURE}),
    Refusal({"noise_std": 0.1}, why="budget and noise_std"),
    Refusal({"initial": np.zeros((3, 3))}),
    Refusal({"initial": "origin"}),
    Refusal({"record_every": -1}),
    Refusal({"optimizer": "steps"}),
    Refusal({"problem": d.SPD}),
)


def minimised(problem, optimizer, initial):
    """`private_minimize` on the records."""

    def call(data, given, **options):
        keywords = {**given.keywords, **rest("X", data), **options}
        X = keywords.pop("X", data["X"])
        what, start = keywords.pop("problem", problem), keywords.pop("initial", initial)
        how = keywords.pop("optimizer", optimizer)
        return riemdp.private_minimize(what, X, start, how, keywords.pop("budget"), **keywords)

    return call


def one_step(result):
    """Where one step with `RATE` from the identity ended, and how far a gradient whose sum changes
    by 2 `CLIP` moves it: less than that in normal coordinates.
    """
    batch = result.details.get("batch_size", d.N)
    return np.asarray(d.SPD.log(START, result.value)), 1.01 * RATE * 2 * CLIP / batch


def with_classes(problem, optimizer, initial):
    """`private_minimize` on records with a private class each."""
    run_of_pairs = minimised(problem, optimizer, initial)

    def call(data, given, **options):
        X = options.pop("X", data["X"])
        return run_of_pairs({"X": (X, data["y"])}, given, **options)

    return call


def in_normal_coordinates(space, initial):
    """Where one step with `RATE` ended, as `one_step`, on any space with a logarithm."""

    def moved(result):
        bound = 1.01 * RATE * 2 * CLIP / result.details["batch_size"]
        return np.asarray(space.to_coordinates(initial, space.log(initial, result.value))), bound

    return moved


def network(variant, optimizer, problem, make):
    """A row of `private_minimize` on a network."""
    start, name = problems.random_start(problem, 0), "riemdp.private_minimize"
    return Entry(
        name,
        variant,
        "DP-RGD/RSGD",
        with_classes(problem, optimizer, start),
        d.labelled(make),
        moved=in_normal_coordinates(problem.manifold, start),
        refusals=(*WRONG_RNG, *WRONG_DATA),
        private_labels=True,
    )


def run(variant, optimizer, claim="DP-RGD/RSGD", make=None, **facts):
    """A row of `private_minimize`."""
    problem, initial = facts.pop("problem", PROBLEM), facts.pop("initial", START)
    facts.setdefault("refusals", WRONG_RNG)
    call = minimised(problem, optimizer, initial)
    return Entry(
        "riemdp.private_minimize", variant, claim, call, make or d.plain(d.matrices), **facts
    )


RUNS = (
    run("DP-RGD", DPRGD(1, RATE, CLIP), moved=one_step, refusals=OF_RUN),
    run("DP-RGD, two steps", DPRGD(2, RATE, CLIP)),
    run("DP-RGD, domain", DPRGD(2, RATE, sensitivity="domain")),
    run("DP-RGD, adaptive clip", DPRGD(9, RATE, "adaptive")),
    run("DP-RGD, one of the iterates", DPRGD(2, RATE, CLIP, output="uniform"), refusals=OF_RUN),
    run(
        "people, DP-RGD",
        DPRGD(1, RATE, CLIP),
        make=d.of_people(d.matrices),
        moved=one_step,
        refusals=(*OF_RUN, *WRONG_GROUPS),
    ),
    run("DP-RSGD", DPRSGD(2, 20, RATE, CLIP), refusals=OF_RUN),
    run("DP-RSGD, Poisson", DPRSGD(2, 20, RATE, CLIP, sampling="poisson"), adjacency=ADD_REMOVE),
    run(
        "DP-RSGD, Poisson, private number of records",
        DPRSGD(2, 20, RATE, CLIP, sampling="poisson", population=60),
        adjacency=ADD_REMOVE,
        empty="released",
    ),
    run(
        "DP-RSGD, Poisson, replace-one",
        DPRSGD(2, 20, RATE, CLIP, sampling="poisson", adjacency="replace-one"),
    ),
    run(
        "DP-RSGD, allocation",
        DPRSGD(3, 20, RATE, CLIP, sampling="allocation"),
        adjacency=ADD_REMOVE,
    ),
    run("people, DP-RSGD", DPRSGD(2, 20, RATE, CLIP), make=d.of_people(d.matrices)),
    run(
        "DP-RSVRG, anchored",
        DPRSVRG(1, 2, RATE, CLIP, batch_size=20),
        "DP-RSVRG",
        refusals=OF_RUN,
    ),
    run(
        "DP-RSVRG, as published",
        DPRSVRG(1, 2, RATE, CLIP, batch_size=20, variant="as-published"),
        "DP-RSVRG",
    ),
    run(
        "geometric median",
        DPRGD(1, RATE, 1.0),
        problem=problems.geometric_median(d.SPD),
        moved=one_step,
    ),
    run(
        "principal eigenvector",
        DPRGD(2, RATE),
        make=d.plain(d.rows),
        problem=problems.principal_eigenvector(3),
        initial=np.eye(3)[0],
    ),
    run(
        "principal subspace",
        DPRGD(2, RATE),
        make=d.plain(d.rows),
        problem=problems.principal_subspace(3, 1),
        initial=np.eye(3)[:, :1],
    ),
    network(
        "SPDNet, DP-RSGD",
        DPRSGD(1, 20, RATE, CLIP),
        problems.spdnet((2, 2, 2), 2),  # both are rotations, which have logarithms
        d.matrices,
    ),
    network(
        "hyperbolic prototypes",
        DPRGD(1, RATE, CLIP),
        problems.hyperbolic_prototypes(3, 4, 2),
        d.rows,
    ),
)


def eigenvector(data, given, **options):
    """`private_principal_eigenvector` of the rows."""
    keywords = {**given.keywords, **rest("X", data), **options}
    X = keywords.pop("X", data["X"])
    return riemdp.optimizers.private_principal_eigenvector(X, **keywords)


def turned(result):
    """The projection onto the vector, which a change of the second moment by sqrt(2) / n turns by
    at most twice that over the gap of eigenvalues, here at least a half (Davis and Kahan).
    """
    v = np.asarray(result.value)
    return np.outer(v, v), np.sqrt(2) * 2 * (np.sqrt(2) / d.N) / 0.5


def leading(variant, make=None, refusals=()):
    """A row of `private_principal_eigenvector`."""
    name = "riemdp.optimizers.private_principal_eigenvector"
    wrong = (
        *WRONG_BUDGET,
        *WRONG_RNG,
        *(r for r in WRONG_DATA if np.ndim(r.options["X"]) != 2),
        Refusal({"budget": PURE}),
        Refusal({"row_norm": 0.0}),
        Refusal({"row_norm": "long"}),
        *refusals,
    )
    data = make or d.plain(d.rows)
    return Entry(name, variant, "PCA", eigenvector, data, refusals=wrong, moved=turned)


EIGENVECTORS = (
    leading(""),
    leading("people", make=d.of_people(d.rows), refusals=WRONG_GROUPS),
)

LOCAL = PriRFed(PROBLEM, DPRGD(1, RATE, CLIP), rounds=2, agents_per_round=2)
TURNS = PriRFed(
    PROBLEM, DPRSGD(2, 20, RATE, CLIP), rounds=2, agents_per_round=1, participation="round-robin"
)
SHARED = PriRFed(PROBLEM, DPRGD(1, RATE, CLIP), rounds=2, agents_per_round=2, noise="shared")
OF_SITES = (
    *WRONG_RNG,
    Refusal({"X": "records"}),
    Refusal({"X": 5.0}),
    Refusal({"X": []}),
    Refusal({"X": [np.zeros((60, 7)), np.zeros((60, 7))]}),
)
LABELS_OF_SITES = (
    Refusal({"groups": [np.arange(3), np.arange(3)]}),
    Refusal({"groups": [d.whose(63)]}),
    Refusal({"groups": 5}),
)


def in_process(prirfed):
    """`run_in_process` on the sites' records."""

    def call(data, given, **options):
        keywords = {**given.keywords, **rest("X", data), **options}
        X = keywords.pop("X", data["X"])
        how, first = keywords.pop("prirfed", prirfed), keywords.pop("initial", START)
        return federated.run_in_process(how, X, first, **keywords)

    return call


def rounds(variant, prirfed, claim="federated", make=None, refusals=(), moved=None):
    """A row of `run_in_process`."""
    wrong = (
        *OF_SITES,
        Refusal({"budget": "all of it"}),
        Refusal({"budget": PURE}),
        Refusal({"prirfed": DPRGD(1)}),
        Refusal({"initial": np.zeros(7)}),
        Refusal({"record_every": -1}),
        *refusals,
    )
    made = make or d.two_sites(d.matrices)
    call = in_process(prirfed)
    name = "riemdp.run_in_process"
    return Entry(name, variant, claim, call, made, sites=True, refusals=wrong, moved=moved)


def over_sites(function, *middle, **fixed):
    """A release of `riemdp.federated` over sites."""

    def call(data, given, **options):
        keywords = {**given.keywords, **fixed, **rest("X", data), **options}
        X = keywords.pop("X", data["X"])
        between = [keywords.pop(name) for name in ("search", "ball") if name in keywords]
        return function(d.SPD, X, *(between or middle), **keywords)

    return call


def search(name, variant, *middle, claim="private ball", make=None, moved=None, **fixed):
    """A row of a search over sites."""
    function = getattr(federated, name)
    wrong = (
        *OF_SITES,
        *WRONG_BUDGET,
        Refusal({"budget": PURE}),
        Refusal({"noise": "none"}),
        Refusal({"tolerated": -1}),
        Refusal({"tolerated": 9}),
    )
    call, data = over_sites(function, *middle, **fixed), make or d.two_sites(d.matrices)
    full = f"riemdp.federated.{name}"
    return Entry(full, variant, claim, call, data, sites=True, refusals=wrong, moved=moved)


def at_a_site(data, given, **options):
    """One answer of a site that counts it in its own file."""
    setup = Setup(LOCAL, START, options.pop("budget", given.budget), agents=2)
    settings = {"name": "a", "answers": given.folder / "answers.json", "ledger": given.ledger}
    site = Site(**settings)
    X = options.pop("X", data["X"])
    own = {name: options.pop(name) for name in ("groups", "sigma") if name in options}
    rng = options.pop("rng", given.rng)
    message = federated.Message(**{"number": 0, "question": START} | options)
    return federated.answer(site, setup, X, message, rng=rng, **own)


def simulated(data, given, **options):
    """Virtual sites, which answer messages of Flower."""
    X = options.pop("X", data["X"])
    told = {"ledger": given.ledger, "budget": given.budget, "rng": 1} | options
    return federated.flower.simulate(LOCAL, X, START, **told)


def step_of_site(result):
    """Where an answer lies, and how far its gradient may move it."""
    return np.asarray(d.SPD.log(START, result.value)), 1.01 * RATE * 2 * CLIP / d.N


def two_rounds(result):
    """Where two rounds of one step ended, and how far one record of two sites may move it."""
    return np.asarray(d.SPD.log(START, result.value)), 1.02 * 2 * RATE * 2 * CLIP / (2 * d.N)


SITES = (
    rounds("local noise", LOCAL, moved=two_rounds),
    rounds("round-robin, batches", TURNS),
    rounds("shared noise", SHARED, "shared sum", moved=two_rounds),
    rounds(
        "people, local noise",
        LOCAL,
        make=d.two_sites_of_people(d.matrices),
        moved=two_rounds,
        refusals=LABELS_OF_SITES,
    ),
    rounds(
        "people, shared noise",
        SHARED,
        "shared sum",
        make=d.two_sites_of_people(d.matrices),
        moved=two_rounds,
        refusals=LABELS_OF_SITES,
    ),
    search("private_ball", "local noise", d.SEARCH),
    search("private_ball", "shared noise", d.SEARCH, claim="shared sum", noise="shared"),
    search("private_frechet_mean", "local noise", d.SEARCH),
    search(
        "private_frechet_mean",
        "shared noise",
        d.SEARCH,
        claim="shared sum",
        noise="shared",
        variance=0.2,
    ),
    search(
        "private_frechet_mean",
        "people, shared noise",
        d.SEARCH,
        claim="shared sum",
        noise="shared",
        make=d.two_sites_of_people(d.matrices),
    ),
    search("private_frechet_variance", "local noise", d.BALL, claim="variance", moved=the_value),
    search(
        "private_frechet_variance",
        "shared noise",
        d.BALL,
        claim="shared sum",
        noise="shared",
        moved=the_value,
    ),
    Entry(
        "riemdp.federated.answer",
        "",
        "federated",
        at_a_site,
        d.plain(d.matrices),
        files=True,
        again={"number": 1},  # a site answers once a round
        moved=step_of_site,
        refusals=(
            *WRONG_RNG,
            *WRONG_DATA,
            Refusal({"question": np.zeros(7)}, federated.Refused),
            Refusal({"number": "first"}, federated.Refused),
            Refusal({"number": 99}, federated.Refused),
            Refusal({"sigma": 1e-9}, federated.Refused, "too little noise"),
            Refusal({"budget": None}, federated.Refused, "no noise"),
            Refusal({"members": {}}, federated.Refused, "members without a shared sum"),
            Refusal({"members": 7}, federated.Refused, "members that are no list"),
            Refusal({"agreement": 7}, federated.Refused, "another agreement"),
            Refusal({"groups": d.whose(60)}, federated.Refused, "labels"),
        ),
    ),
    Entry(
        "riemdp.federated.flower.simulate",
        "",
        "federated",
        simulated,
        d.two_sites(d.matrices),
        sites=True,
        runs=False,
        needs="flwr",
        seeded=False,
        refusals=(
            Refusal({"budget": "all of it"}),
            Refusal({"X": 5.0}),
        ),
    ),
)
