"""What an experiment is, and how its results reach the disk: whole or not at all, resumable, with a
verdict in words.

An experiment is a function `run(context) -> Result` registered under the name of the artefact it
reproduces, `<paper>-figure-<n><panel>` or `<paper>-table-<n>`. It computes; this module writes
`data.csv`, `figure.png`, `figure.svg`, `verdict.md` and `meta.json` into a folder of that name, all
at once, by renaming a finished temporary folder.
"""

from __future__ import annotations

import csv
import difflib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from riemdp import __version__

from .checks import invalid

PAPERS = {
    "reimherr2021": (
        "Reimherr, Bharath, Soto. Differential privacy over Riemannian manifolds. NeurIPS 2021."
    ),
    "utpala2023le": (
        "Utpala, Vepakomma, Miolane. Differentially private Frechet mean on the manifold of SPD"
        " matrices with log-Euclidean metric. TMLR 2023."
    ),
    "han2024": (
        "Han, Mishra, Jawanpuria, Gao. Differentially private Riemannian optimization. Machine"
        " Learning 113, 2024."
    ),
    "utpala2023": (
        "Utpala, Han, Jawanpuria, Mishra. Improved differentially private Riemannian optimization:"
        " fast sampling and variance reduction. TMLR 2023."
    ),
    "huang2024": (
        "Huang, Huang, Jawanpuria, Mishra. Federated learning on Riemannian manifolds with"
        " differential privacy. 2024."
    ),
}
_FILES = ("data.csv", "figure.png", "figure.svg", "verdict.md", "meta.json")


@dataclass(frozen=True)
class Context:
    """What an experiment is given: how thorough to be, the seed of its simulation, and a place to
    report progress.
    """

    quick: bool
    seed: int = 2026
    report: Callable[[str], None] = lambda message: None

    def choose(self, quick: Any, full: Any) -> Any:
        """The first value in a quick run, the second in a full one."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Result:
    """What an experiment returns. `rows` become the CSV; `figure` is drawn by `riemdp.plots`.

    The four paragraphs of the verdict: what the paper shows; what its published noise gives; what
    certified noise gives at the same stated (epsilon, delta); the true epsilon of the published
    noise. `data` says which data were used, and when a stand-in was used it says so.
    """

    rows: Sequence[dict[str, Any]]
    figure: Any
    paper_shows: str
    published: str
    certified: str
    true_epsilon: str
    data: str
    stand_in: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A registered artefact of a paper."""

    name: str
    title: str
    run: Callable[[Context], Result]

    @property
    def paper(self) -> str:
        return self.name.split("-", 1)[0]


_REGISTRY: dict[str, Experiment] = {}


def experiment(
    name: str, title: str
) -> Callable[[Callable[[Context], Result]], Callable[[Context], Result]]:
    """Decorator: register `run(context) -> Result` under the artefact's name."""
    paper = name.split("-", 1)[0]
    if paper not in PAPERS:
        raise invalid("name", name, "start it with one of " + ", ".join(PAPERS))

    def register(run: Callable[[Context], Result]) -> Callable[[Context], Result]:
        if name in _REGISTRY:
            raise invalid("name", name, "it is registered already")
        _REGISTRY[name] = Experiment(name, title, run)
        return run

    return register


def names() -> list[str]:
    """Names of all experiments, in the order of the papers and their artefacts."""
    order = {paper: i for i, paper in enumerate(PAPERS)}
    return sorted(_REGISTRY, key=lambda name: (order[name.split("-", 1)[0]], "table" in name, name))


def get(name: str) -> Experiment:
    """The experiment of that name; the error for an unknown one lists the nearest names."""
    if name not in _REGISTRY:
        near = difflib.get_close_matches(name, _REGISTRY, n=3, cutoff=0.3) or names()[:3]
        raise invalid("name", name, "see `python -m papers list`; near it: " + ", ".join(near))
    return _REGISTRY[name]


def is_done(out: Path, name: str, *, quick: bool) -> bool:
    """Whether `out/name` holds a whole result of this version and mode."""
    meta = out / name / "meta.json"
    if not all((out / name / f).exists() for f in _FILES):
        return False
    try:
        found = json.loads(meta.read_text())
    except (OSError, json.JSONDecodeError):
        return False
    return found.get("version") == __version__ and found.get("quick") == quick


def run(
    name: str,
    *,
    quick: bool = True,
    out: str | Path = "results",
    seed: int = 2026,
    report: Callable[[str], None] = lambda message: None,
) -> Path:
    """Run one experiment and write its folder `out/name`; returns that folder. A failed or
    interrupted run writes nothing.
    """
    chosen = get(name)
    target = Path(out) / name
    started, worked = time.perf_counter(), time.process_time()
    result = chosen.run(Context(quick=quick, seed=seed, report=report))
    seconds = (time.perf_counter() - started, time.process_time() - worked)
    _write(target, chosen, result, quick=quick, seed=seed, seconds=seconds)
    return target


def run_all(
    *,
    quick: bool = True,
    out: str | Path = "results",
    seed: int = 2026,
    fresh: bool = False,
    only: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda message: None,
) -> list[Path]:
    """Run every experiment that `out` does not hold yet (all of them with `fresh`); interrupting it
    loses only the one under way, and calling it again goes on where it stopped.
    """
    done = []
    chosen = list(only or names())
    for number, name in enumerate(chosen, 1):
        if not fresh and is_done(Path(out), name, quick=quick):
            report(f"[{number}/{len(chosen)}] {name}: already there")
        else:
            report(f"[{number}/{len(chosen)}] {name}: {get(name).title}")
            begin = time.perf_counter()
            run(
                name,
                quick=quick,
                out=out,
                seed=seed,
                report=lambda message: report(f"    {message}"),
            )
            report(f"    done in {time.perf_counter() - begin:.0f} s")
        done.append(Path(out) / name)
    return done


def _write(
    target: Path,
    chosen: Experiment,
    result: Result,
    *,
    quick: bool,
    seed: int,
    seconds: tuple[float, float],
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{chosen.name}-", dir=target.parent))
    try:
        columns = list(dict.fromkeys(key for row in result.rows for key in row))
        with open(temporary / "data.csv", "w", newline="") as f:
            writer = csv.DictWriter(f, fieldnames=columns)
            writer.writeheader()
            writer.writerows({k: _plain(v) for k, v in row.items()} for row in result.rows)
        result.figure.savefig(temporary / "figure.png", dpi=150)
        result.figure.savefig(temporary / "figure.svg")
        (temporary / "verdict.md").write_text(_verdict(chosen, result))
        meta = {
            "name": chosen.name,
            "title": chosen.title,
            "version": __version__,
            "quick": quick,
            "seed": seed,
            "seconds": round(seconds[0], 2),
            "processor_seconds": round(seconds[1], 2),
            "data": result.data,
            "stand_in": result.stand_in,
            "facts": _plain(result.facts),
        }
        (temporary / "meta.json").write_text(json.dumps(meta, indent=2, allow_nan=True) + "\n")
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _verdict(chosen: Experiment, result: Result) -> str:
    stand_in = " **(a stand-in: the paper's data could not be had)**" if result.stand_in else ""
    return (
        f"# {chosen.title}\n\n*{PAPERS[chosen.paper]}* Artefact `{chosen.name}`.\n\n**Data.**"
        f" {result.data}{stand_in}\n\n**The paper shows.** {result.paper_shows}\n\n**With the"
        f" published noise.** {result.published}\n\n**With certified noise.**"
        f" {result.certified}\n\n**True epsilon of the published noise.**"
        f" {result.true_epsilon}\n\nThese are simulations with a seed for study; they are not"
        " private releases.\n"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
