"""The one place where tests touch private names. What moves inside the package is told here alone.
A test of public calls, or a row of `tests/contract`, outlives the code and is better."""

from __future__ import annotations

import functools
import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from riemdp.audit import _optimizers

_PLACES = {
    "rows of a part": "domains._sums.MOST_ROWS",
    "bytes taken whole": "domains._reading.WHOLE",
    "rows read at once": "domains._sources._NEAR",
    "entries of batches in a file": "optimizers._streamed.ENTRIES",
    "entries of a block": "optimizers._driver.ENTRIES",
    "entries of repeated runs": "optimizers._driver.REPEATED_ENTRIES",
    "steps of a block": "optimizers._driver._rows",
    "normals drawn at once": "randomness._source._MANY",
    "draws of K-norm noise at once": "mechanisms._knorm._BATCH",
    "a file's read": "domains._sources.Map.read",
    "a reader's fetch": "domains._sources.AbstractSource.fetched",
    "distances from a center": "manifolds.AbstractManifold._radially",
    "sum of a class": "mechanisms._class_sums.pairwise_sum",
    "look at records": "statistics._mean_query.look_at",
    "solver of a mean": "statistics._solver._accelerated",
    "length of a step": "statistics._solver._usual_length",
    "noise of shares": "mechanisms._base.Purse",
    "scale of a share": "mechanisms._lattice.scale_for",
    "noise of a count": "mechanisms._lattice.Purse.count",
    "a mean with its count": "mechanisms._counted.Counted._draw",
    "distribution of a moved release": "releases._choices.errors_in_ball",
    "weight of second moments": "mechanisms._class_models.WEIGHT",
    "covariance of a PGA": "estimators._pga._moment",
    "fits without a ledger": "estimators._shared._unrecorded",
    "allocated batches": "optimizers._batches.allocated_batches",
    "choice of a kernel": "optimizers._descent.choose_kernel",
    "end of a block": "optimizers._result.Recorder.after",
    "compiled steps": "optimizers._driver._Driver._compiled",
    "class of gradients": "optimizers._minimize.NoisyGradient",
    "charge of a site": "federated._site.charge",
    "answers of a site": "federated._site.Answers.enter",
    "key of an answer": "federated._door.forget",
    "records of a site": "federated._rounds.Rounds.own",
    "number of a site": "federated._rounds.Rounds.size",
    "what a masked question is of": "federated._in_process.Question",
    "numbers that are kept of a file": "domains._stream.HELD",
    "words of a mask": "federated._secure_sum._common",
    "key of a mask": "federated._secure_sum._key",
    "trial of a loss": "problems._trial._finite",
    "time of a step": "optimizers._driver.StepTimer.timed",
    "check of a start": "optimizers._minimize.check_initial",
    "gradients of rank one": "optimizers._kernels.RankOne.gradients",
    "spectrum of a moment": "optimizers._eigenvector.spectrum",
    "guarantees under replacement": "optimizers._private_step.privacy.replace_one",
    "distances of people": "statistics._people._logs",
    "rule of the filter": "privacy._filter.admits",
    "record of a plan": "releases._plan._rows",
    "error in a ball": "releases._plan.errors_in_ball",
    "text of a release": "cli._release.serialised",
    "line of a ledger": "_locks.Lock.append",
    "coordinates on a hyperboloid": "manifolds._lorentz.Lorentz._log_coordinates",
    "hellos of a server": "federated.flower._server._HELLO_EVERY",
    "opening of a lock": "_locks.open",
    "strips of the normal distribution": "randomness._rounded.strips",
    "gap under the normal distribution": "randomness._rounded._gap",
    "words of normals": "randomness._rounded._words",
    "guard of normals": "randomness._rounded.GUARD",
    "slack of normals": "randomness._rounded._SLACK",
    "kept Laplace vectors": "randomness._discrete_laplace._kept",
    "guard of Laplace vectors": "randomness._discrete_laplace.GUARD",
    "cipher of many normals": "randomness._many.Cipher",
    "many normals": "randomness._source.many_normals",
    "directions of symmetric matrices": "sampling._spectral.symmetric_directions",
    "matrices of few directions": "sampling._spectral._DENSE",
    "points in many digits": "sampling._far._affine_from_public_point",
    "bound of kept proposals": "sampling._laplace._most_kept",
    "reader of a command": "cli._readers.read_records",
    "noise of an answer": "federated._search_sites.NoiseOfSites.noisy",
    "a mask": "federated._secure_sum._mask",
}


def _place(path: str) -> tuple[Any, str]:
    """The owner of a name, and the name."""
    *parts, name = path.split(".")
    owner, package = importlib.import_module("riemdp"), "riemdp"
    for part in parts:
        package = f"{package}.{part}"
        try:
            owner = importlib.import_module(package)
        except ModuleNotFoundError:
            owner = getattr(owner, part)
    return owner, name


def original(what: str) -> Any:
    """What stands at a place of `_PLACES` now."""
    return getattr(*_place(_PLACES[what]))


def plant(patch: pytest.MonkeyPatch, what: str, new: Any) -> None:
    """Something else at a place of `_PLACES`, for the time of a patch."""
    patch.setattr(*_place(_PLACES[what]), new, raising=what != "opening of a lock")


def _names(table: dict[str, str]) -> SimpleNamespace:
    """Names of modules; `_name` is called `name` here, and `one:other` is called `other`."""
    found = {}
    for module, names in table.items():
        for name in names.split():
            own, _, other = name.partition(":")
            found[other or own.lstrip("_")] = getattr(*_place(f"{module}.{own}"))
    return SimpleNamespace(**found)


# many runs of an optimiser at once, charged to nobody
replicate = _optimizers.replicate
# the noisy gradient of a step: what it is made from, classes to subclass, and steps by hand
Gradients = _names(
    {
        "optimizers._private_step": "NoisyGradient Batches PrivateDraws Query scale_of"
        " _guarantee allocation Account",
        "optimizers._records": "PrivateRecords exact_sum",
        "_programs": "traced",
        "optimizers._adaptive_clip": "AdaptingGradient AdaptiveClip ClipRange",
        "optimizers._kernels": "AffineInvariantMean Generic choose_kernel gradient_function",
        "optimizers._people": "People Grouped each_record",
        "optimizers._batches": "poisson_batches",
        "optimizers._variance_reduced": "difference_clip",
        "optimizers._steps": "Anchor Block Carry Row Span run_steps",
    }
)
# keys of sites, and what they send of a sum
Masks = _names(
    {
        "federated._secure_sum": "Keys Member Question Roster masked total is_words"
        " new_key_file public_key forget",
        "federated._shared_sum": "SharedSum MOST_RECORDS",
        "optimizers._records": "whole_sum",
    }
)
Sites = _names(
    {
        "federated._shared_sum": "Belonging noisy_sum summed_gradients",
        "federated._aggregate": "moved_by_sum:moved",
        "federated._rounds": "admit_current is_outside updated",
        "federated._door": "admit keys_of next_key",
        "federated._check": "problems_of_server",
        "federated._protocol": "context_of",
        "federated._in_process": "permits_of",
        "federated._site": "Part",
        "federated._accounting": "_multiplier plan_shared",
        "privacy._participation": "coarser",
    }
)
Servers = _names(
    {
        "federated._drive": "drive drive_search make_coordinator resumed",
        "federated._sites": "Replies Timing Waiting why_not_enrolled",
        "federated._journal": "Journal",
        "federated._result": "told_result write_result told_release write_release",
    }
)


@functools.cache
def over_flower() -> SimpleNamespace:
    """Messages and transports of the extra `federated`."""
    return _names(
        {
            "federated.flower._messages": "fact pack unpack",
            "federated.flower._server": "GridTransport _agreed search",
        }
    )


# a search for a ball: its plan, and who answers its questions
Searches = _names(
    {
        "privacy._noise": "Noise:SomeNoise GaussianNoise LaplaceNoise",
        "mechanisms._search_plan": "plan_search plan_short_search share_of_short_search",
        "mechanisms._ball_search": "run_search",
        "mechanisms._short_search": "run_short_search",
        "mechanisms._search_records": "Purse SearchRecords",
        "mechanisms._streamed_search": "StreamedRecords SearchPeople",
        "federated._search_sites": "TANGENTS SQUARES Ask NoiseOfSites SearchSite",
        "federated._search": "SumsOverSites",
        "federated._terms": "SearchTerms",
        "federated._ball": "_Given",
        "federated._over_sites": "MeanOverSites in_process",
    }
)
# mechanisms of sums that estimators are made of, and how a person's records are folded
Sums = _names(
    {
        "mechanisms._class_models": "PureSums ClassMeansNoise ClassMoments DiscriminantNoise",
        "mechanisms._class_sums": "ClassSums ClassSpreads",
        "inference._comparison": "SampleMean compared _largest_tail variance_above"
        " covariance_above",
        "mechanisms._prior_classes": "ClassContrasts PriorClassifier",
        "mechanisms._regression": "RegressionNoise TargetRange ridge weights",
        "mechanisms._second_moment": "SecondMomentNoise AdaptiveSecondMoment spectrum",
        "statistics._second_moment": "of_rows clip_rows second_moment second_moment_sensitivity",
        "statistics._membership": "Membership",
        "statistics._people": "people",
        "mechanisms._parts": "Apart InTurn PublicParts",
        "mechanisms._selection": "BestOfRuns ScoreNoise number_of_runs",
    }
)
# what a private mean is made of, from public numbers
Means = _names(
    {
        "mechanisms._for_mean": "MeanFacts share_of_count LEAST MOST",
        "mechanisms._counted": "Counted OutsideCount",
        "domains._ends": "_bures_wasserstein_exp",
        "manifolds._lorentz": "between seen_from squared_chord",
        "manifolds._spectral_on_jax": "_divided_differences",
        "inference._distributions": "gaussian_errors keeps_near moved_in"
        " riemannian_laplace_errors riemannian_laplace_bound",
        "mechanisms._shrinking": "james_stein shortened",
        "releases._choices": "try_build kept_in",
        "estimators._shared": "required",
        "releases._median": "step_sizes",
        "inference._direction": "moments resultant_of concentration_of",
        "releases._plan": "_remembered:remembered_plan",
        "releases._remembered": "_first _counted counted_mechanism",
        "statistics._solver": "log_sums look_at mean_in ACCELERATED Found plain_fall plain_steps",
        "sampling._far": "_affine_limits",
        "sampling._laplace": "Truncation View affine_points direction_and_exp draw far_probability"
        " hyperbolic_points truncation _most_kept _truncation:kept",
        "sampling._radial": "TangentHull flat_hull hyperbolic_hull hyperbolic_radii hyperbolic_tail"
        " sphere_hull",
        "sampling._spectral": "AffineProposal SLACK _mean_at_least affine_proposal"
        " affine_tangents direction_spectra grassmann_proposal log_sinc log_sinhc",
    }
)
# noise of whole numbers, and the samplers of its distributions
Noise = _names(
    {
        "mechanisms._lattice": "added added_laplace grid_of on_grid scale_for noise_of_integer"
        " laplace_of_integer _sum:sum_of",
        "randomness._rounded": "GUARD REACH scale_up strips _gap _rounded _words _exactly_below"
        " _exactly_rounded",
        "randomness._discrete": "keeping _below",
        "randomness._discrete_laplace": "MOST_DIMENSIONS heads laplace_vector two_sided"
        " uniform_below _kept _limit",
        "randomness._many": "many_normals _PAIRS",
        "randomness._source": "_ROUNDS",
    }
)
# how records, labels and files come in
Doors = _names(
    {
        "domains._door": "admit_in_parts admit_records admit_value",
        "domains._points": "admit_point",
        "domains._labels": "NO_CLASS admit_labels admit_people public_classes",
        "domains._clamp": "INSIDE clamp clamp_flagged slack",
        "domains._sums": "BLOCK Total mean_of pairwise_sum streamed_error summation_error",
        "domains._reading": "Miscounted _counted source_of taken",
        "domains._sources": "Chosen Held Map",
        "domains._stream": "Stream",
        "_errors": "check_float64",
        "_files": "staged write_text",
        "_locks": "locked _held",
        "_parallel": "in_turn _turn",
    }
)
# how the command line reads and shows, and how attacks are judged
Commands = _names(
    {
        "cli._app": "app",
        "cli._run": "InputProblem",
        "cli._readers": "read_records",
        "cli._release": "labels_of",
        "cli._spaces": "space_for center_for",
        "cli._show": "as_text",
        "report._words": "number percent rounded_up",
        "cli._demo": "FILES run_demo",
    }
)
Accounts = _names(
    {
        "audit._attacks": "assess",
        "audit._one_run": "assess_guesses p_value",
        "privacy._costliest": "covers",
        "privacy._permit": "Permit adds_up",
        "privacy._selection": "selected budget_of_run",
        "privacy._trade_off": "posterior",
        "privacy._filter": "pure_cost gaussian_cost _delta _orders _whole_delta _ROOM"
        " _GAUSSIAN_SHARE _GAUSSIAN_RESERVE _RENYI_SHARE _RENYI_RESERVE",
        "privacy.accounting.fourier": "_Plan _compose",
        "privacy.accounting.allocation": "_Below _grid",
        "privacy.accounting.gaussian": "_solve",
    }
)
