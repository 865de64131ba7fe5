"""The reference pages show every public name, by its public path, and nothing else."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import riemdp
from tests.public import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(ROOT.glob("docs/reference/*.md"))
SHOWN = [
    path
    for page in PAGES
    for path in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE)
]
TOP = set(riemdp.__all__) - set(PACKAGES) - {"__version__"}
# `riemdp.frechet_mean` is the statistic, and `riemdp.private_ball` is for records in one place;
# these are the problem, and what several sites release together.
OTHERS = {
    "riemdp.problems.frechet_mean",
    "riemdp.federated.private_ball",
    "riemdp.federated.private_frechet_mean",
    "riemdp.federated.private_frechet_variance",
}
# Classes whose objects functions return, and nobody makes: shown, for their attributes are read.
RESULTS = {
    "riemdp.audit.AuditResult",
    "riemdp.audit.OneRunAudit",
    "riemdp.domains.InvalidRecord",
    "riemdp.estimators.ClassifierRow",
    "riemdp.estimators.FitRow",
    "riemdp.estimators.RegressorRow",
    "riemdp.estimators.SearchRow",
    "riemdp.federated.FederatedPlan",
    "riemdp.federated.FederatedResult",
    "riemdp.federated.RoundRecord",
    "riemdp.inference.Comparison",
    "riemdp.inference.ErrorDistribution",
    "riemdp.inference.Facts",
    "riemdp.inference.Observation",
    "riemdp.inference.OutsideCount",
    "riemdp.inference.Query",
    "riemdp.manifolds.CheckReport",
    "riemdp.manifolds.PropertyResult",
    "riemdp.optimizers.AbstractPlan",
    "riemdp.optimizers.History",
    "riemdp.optimizers.HistoryRow",
    "riemdp.optimizers.Plan",
    "riemdp.releases.ClusterRow",
    "riemdp.releases.ComparisonRow",
    "riemdp.releases.CurveRow",
    "riemdp.releases.DirectionRow",
    "riemdp.releases.MeanRow",
    "riemdp.releases.Plan",
    "riemdp.releases.PlanRow",
    "riemdp.releases.PriorRow",
    "riemdp.releases.SearchRow",
}


def public_paths() -> set[str]:
    """Every public name: at the top where it is there, otherwise in its package."""
    paths = {f"riemdp.{name}" for name in TOP}
    for package in PACKAGES:
        names = importlib.import_module(f"riemdp.{package}").__all__
        paths |= {f"riemdp.{package}.{name}" for name in names if name not in TOP}
    return paths | OTHERS


def test_every_public_name_is_shown_once():
    engine = {path for path in SHOWN if path.startswith("riemdp.federated.flower.")}
    assert set(SHOWN) - engine - RESULTS == public_paths()
    assert set(SHOWN) > RESULTS
    for path in RESULTS:
        package, _, name = path.rpartition(".")
        assert isinstance(getattr(importlib.import_module(package), name), type)
    assert len(SHOWN) == len(set(SHOWN))


def test_what_is_shown_of_the_engine_exists():
    text = (ROOT / "src/riemdp/federated/flower/__init__.py").read_text(encoding="utf-8")
    for path in SHOWN:
        if path.startswith("riemdp.federated.flower."):
            assert f'"{path.rsplit(".", 1)[1]}"' in text


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES:
        assert f"reference/{page.name}" in navigation
