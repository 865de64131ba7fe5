"""Plant named faults in the code that privacy rests on, one at a time, and see that a test notices.

    python tools/mutants.py              every fault of mutants.toml; writes docs/mutants.md
    python tools/mutants.py --check      only that every fault can still be planted
    python tools/mutants.py --only clip  the faults whose name matches

A fault is a passage of one file (`old`, which must occur exactly once), what takes its place
(`new`) and the quick tests that guard it. Faults are planted in a temporary copy of the tree, never
in the tree itself. All guarding tests also run once on an unharmed copy, and must pass there. Each
fault is planted by itself: killed (a test failed), survived (all passed), timeout, or broken (the
tests could not run, which proves nothing). Nothing here reads the state of git, and results come in
the order of the table whatever the number of workers is.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import dataclasses
import importlib
import os
import py_compile
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "mutants.toml"
PAGE = ROOT / "docs" / "mutants.md"
COPIED = ("src", "tests", "tools", "docs", "examples", "papers", "bench")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "mkdocs.yml", "Makefile")
LIMIT = 300.0  # seconds for the tests of one fault
PRELOADED = (
    "pytest",
    "hypothesis",
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "jax.numpy",
    "equinox",
    "jaxtyping",
    "sklearn.base",
    "cryptography.hazmat.primitives.ciphers",
)
PYTEST = ("-q", "-x", "-rf", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One named fault."""

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, root: Path) -> str:
        """Why it cannot be planted in the tree at `root`, or nothing."""
        path = root / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        text = path.read_text(encoding="utf-8")
        found = text.count(self.old)
        if found != 1:
            return f"its passage occurs {found} times in {self.file}"
        try:
            planted = ast.dump(ast.parse(text.replace(self.old, self.new)))
        except SyntaxError as error:
            return f"what it plants is not Python: {error.msg}"
        if planted == ast.dump(ast.parse(text)):
            return "it changes nothing"
        for test in self.tests:
            if not (root / test.split("::")[0]).is_file():
                return f"there is no test file {test.split('::')[0]}"
        return "" if self.tests else "no test guards it"


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one fault."""

    mutant: Mutant
    outcome: str  # killed, survived, timeout, broken
    by: str
    seconds: float


def read(table: Path = TABLE) -> list[Mutant]:
    """The faults of a table, in its order; names are unique."""
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
    mutants = [
        Mutant(
            e["name"],
            e["breaks"],
            e["file"],
            e["old"],
            e["new"],
            tuple(f"tests/{t}" for t in e["tests"]),
        )
        for e in entries
    ]
    names = [m.name for m in mutants]
    if len(set(names)) != len(names):
        raise SystemExit(
            f"names are not unique: {sorted({n for n in names if names.count(n) > 1})}"
        )
    return mutants


def copy_of(root: Path, target: Path) -> Path:
    """A copy of what the tests need."""
    target.mkdir(parents=True)
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(
                root / name,
                target / name,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "results", "assets", "img"),
            )
    for name in FILES:
        if (root / name).is_file():
            shutil.copy2(root / name, target / name)
    # Compiled once, and checked by content: a planted fault is never hidden by an older file.
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(target / "src", quiet=1, invalidation_mode=checked)
    return target


class Run:
    """pytest in a fork of this process, which has imported the libraries already."""

    def __init__(self, tree: Path, tests: tuple[str, ...], limit: float):
        self.tree, self.log = tree, tree / "output.txt"
        self.begun, self.limit = time.perf_counter(), limit
        self.pid = os.fork()
        if self.pid == 0:
            _child(tree, tests, self.log)

    def ended(self) -> tuple[int | None, str, float] | None:
        """(exit code, or None for a timeout; output; seconds), or nothing while it runs."""
        done, status = os.waitpid(self.pid, os.WNOHANG)
        seconds = time.perf_counter() - self.begun
        code: int | None = os.waitstatus_to_exitcode(status)
        if not done:
            if seconds < self.limit:
                return None
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            code = None
        return code, self.log.read_text(encoding="utf-8", errors="replace"), seconds


def _child(tree: Path, tests: tuple[str, ...], log: Path) -> NoReturn:
    code = 70
    try:
        os.setsid()
        with log.open("wb") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        os.chdir(tree)
        os.environ["PYTHONPATH"] = str(tree / "src")  # for commands that a test starts
        sys.path[:0] = [str(tree), str(tree / "src")]
        import pytest

        code = int(pytest.main([*PYTEST, *tests]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def preload(cache: Path) -> None:
    """Import the libraries once, in the parent: half of a small test's time. Never the package."""
    sys.dont_write_bytecode = True
    settings = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PYTEST_ADDOPTS": "",
        "JAX_ENABLE_X64": "1",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    for name in PRELOADED:
        importlib.import_module(name)
    if "riemdp" in sys.modules or threading.active_count() > 1:
        raise SystemExit("the parent process must stay single-threaded and without the package")


def judged(mutant: Mutant, code: int | None, output: str, seconds: float) -> Result:
    """What the tests' end says about a fault."""
    if code is None:
        return Result(mutant, "timeout", "", seconds)
    if code == 0:
        return Result(mutant, "survived", "", seconds)
    failed = re.search(FAILED, output, re.M)
    if code == 1 and failed:
        return Result(mutant, "killed", failed.group(1), seconds)
    if code < 0:
        return Result(mutant, "killed", f"the process ended by signal {-code}", seconds)
    return Result(mutant, "broken", output.strip().splitlines()[-1] if output else "", seconds)


def judge_all(mutants: list[Mutant], workers: int, limit: float) -> list[Result]:
    """All faults, `workers` at a time, each in a copy that is whole before and after.

    The first job is the baseline: all guarding tests on an unharmed copy. A test that fails there
    proves nothing: what it seems to kill is broken.
    """
    scratch = Path(tempfile.mkdtemp(prefix="riemdp-mutants-"))
    found: dict[str, Result] = {}
    already: set[str] = set()
    try:
        copy_of(ROOT, scratch / "sound")  # the tree as it was when the run began
        free = [copy_of(scratch / "sound", scratch / f"tree-{i}") for i in range(workers)]
        waiting: list[Mutant | None] = [None, *mutants]
        busy: list[tuple[Mutant | None, Run]] = []
        while waiting or busy:
            while waiting and free:
                mutant, tree = waiting.pop(0), free.pop()
                if mutant is None:
                    tests = tuple(dict.fromkeys(t for m in mutants for t in m.tests))
                    busy.append((None, Run(tree, ("--maxfail=1000", *tests), 3600.0)))
                    continue
                plant(mutant, tree, back=False)
                busy.append((mutant, Run(tree, mutant.tests, limit)))
            for mutant, run in list(busy):
                ended = run.ended()
                if ended is None:
                    continue
                busy.remove((mutant, run))
                free.append(run.tree)
                if mutant is None:
                    already = failures(*ended[:2])
                    print(f"baseline {ended[2]:6.0f} s  {len(already)} guards fail by themselves")
                    continue
                plant(mutant, run.tree, back=True)
                result = found[mutant.name] = judged(mutant, *ended)
                print(
                    f"{result.outcome:9}{result.seconds:6.0f} s  {mutant.name}  {result.by}",
                    flush=True,
                )
            time.sleep(0.05)
        results = [found[m.name] for m in mutants]
        return [
            dataclasses.replace(r, outcome="broken") if r.by and r.by in already else r
            for r in results
        ]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def failures(code: int | None, output: str) -> set[str]:
    """The tests that fail without any fault planted."""
    if code == 0:
        return set()
    names = set(re.findall(FAILED, output, re.M))
    if code != 1 or not names:
        print(output[-3000:])
        raise SystemExit("the guarding tests do not run on the unharmed copy; correct that first")
    for name in sorted(names):
        print(f"fails without any fault: {name}", flush=True)
    return names


def plant(mutant: Mutant, tree: Path, *, back: bool) -> None:
    """Put the fault into a copy, or the sound passage back."""
    path = tree / mutant.file
    sound = (tree.parent / "sound" / mutant.file).read_text(encoding="utf-8")
    path.write_text(sound if back else sound.replace(mutant.old, mutant.new), encoding="utf-8")


def page(results: list[Result], minutes: float, workers: int) -> str:
    """The table for the documents."""
    count = {o: sum(r.outcome == o for r in results) for o in OUTCOMES}
    lines = [
        "# Planted faults",
        "",
        "`make mutants` plants each of these faults by itself in a copy of the code that privacy",
        "rests on, and runs the quick tests that guard it. A fault that no test notices",
        "(*survived*) is a hole in the tests, not a fault of the library.",
        "",
        f"{len(results)} faults: "
        + ", ".join(f"{n} {o}" for o, n in count.items() if n or o in ("killed", "survived"))
        + f". The whole run took {minutes:.0f} minutes with {workers} "
        + ("worker." if workers == 1 else "workers."),
        "",
        "| fault | what it breaks | file | outcome | noticed by |",
        "|--|--|--|--|--|",
    ]
    for r in results:
        by = r.by.split("::")[-1].split("[")[0]
        file = r.mutant.file.removeprefix("src/riemdp/")
        lines.append(
            f"| {r.mutant.name} | {r.mutant.breaks} | `{file}` | {r.outcome} |"
            + (f" `{by}` |" if by else " |")
        )
    return "\n".join(lines) + "\n"


FAILED = r"^FAILED (\S+::[^\n]*?)(?: - [^\n]*)?$"
OUTCOMES = ("killed", "survived", "timeout", "broken")


def main(arguments: list[str] | None = None) -> int:
    """The command; exit code 1 unless every fault was noticed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("--only", help="a regular expression for names")
    parser.add_argument("--check", action="store_true", help="only see that all can be planted")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one fault")
    options = parser.parse_args(arguments)
    mutants = [m for m in read() if not options.only or re.search(options.only, m.name)]
    problems = [(m, p) for m in mutants if (p := m.problem(ROOT))]
    for mutant, problem in problems:
        print(f"not applicable: {mutant.name}: {problem}")
    if options.check or problems:
        print(f"{len(mutants) - len(problems)} of {len(mutants)} faults can be planted")
        return 1 if problems else 0
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="riemdp-mutants-cache-") as cache:
        preload(Path(cache))
        results = judge_all(mutants, options.workers, options.limit)
    minutes = (time.perf_counter() - begun) / 60
    missed = [r for r in results if r.outcome not in ("killed", "timeout")]
    print(
        f"{len(results)} faults in {minutes:.1f} minutes: "
        + ", ".join(f"{sum(r.outcome == o for r in results)} {o}" for o in OUTCOMES)
    )
    if not options.only:
        PAGE.write_text(page(results, minutes, options.workers), encoding="utf-8")
        print(f"written: {PAGE}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
