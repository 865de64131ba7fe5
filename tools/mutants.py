"""Plant named faults in the code that privacy rests on, one at a time, and see that a test notices.

    python tools/mutants.py              every fault of mutants.toml; writes out/mutants.md
    python tools/mutants.py --check      only that every fault can still be planted
    python tools/mutants.py --only clip  the faults whose name matches
    python tools/mutants.py --contract   against the contract alone, whatever guards them
    python tools/mutants.py --random 20 --seed COMMIT --files Account src/riemdp/privacy/_filter.py
        faults that nobody chose, against the contract

A fault is a passage of one symbol (`old`, which must occur exactly once in its lines), what takes
its place (`new`) and the quick tests that guard it; tools/symbols.py finds symbols and tests by
name. Faults are planted in a temporary copy of the tree, never in the tree itself. All guarding
tests also run once on an unharmed copy, and must pass there. Each fault is planted by itself:
killed (a test failed), survived (all passed), timeout, or broken (the tests could not run, which
proves nothing). Nothing here reads the state of git, and results come in the order of the table
whatever the number of workers is.

The contract is tests/contract, and tests/sampling: rows release on one space each, and that noise
has its distribution is asked there of every space. A fault of --random that the contract does not
notice also meets the guards of the named faults in its file. Where one fails, the fault changes
what the code does, and has survived the contract. Where none does, it may change nothing: it is
unknown, and counts neither way.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import dataclasses
import functools
import importlib
import itertools
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

import random_faults
from symbols import Tree, Unknown

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tools" / "mutants.toml"
PAGE = ROOT / "out" / "mutants.md"
COPIED = ("src", "tests", "tools", "docs", "examples", "papers", "bench")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md", "mkdocs.yml", "Makefile")
LIMIT = 300.0  # seconds for the tests of one fault
WHOLE = 1800.0  # seconds for the whole contract
PRELOADED = (
    "pytest",
    "hypothesis",
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "jax.numpy",
    "jaxtyping",
    "sklearn.base",
    "cryptography.hazmat.primitives.ciphers",
)
PYTEST = ("-q", "-x", "-rf", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist")
# the promises over all rows, and over all spaces that noise has its distribution there
CONTRACT = ("tests/contract", "tests/sampling")
SHARE = 0.9  # of the drawn faults that change behaviour, the contract notices
UNGUARDED = "no test guards it"


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One named fault."""

    name: str
    breaks: str
    symbol: str
    old: str
    new: str
    tests: tuple[str, ...]

    def problem(self, tree: Tree) -> str:
        """Why it cannot be planted in a tree and judged there, or nothing."""
        try:
            place = tree.code.find(self.symbol)
            for test in self.tests:
                tree.test(test)
        except Unknown as error:
            return str(error)
        text, sound = _read(tree.root / place.file)
        found = place.count(text, self.old)
        if found != 1:
            return f"its passage occurs {found} times in {place}"
        try:
            planted = ast.parse(place.replaced(text, self.old, self.new))
        except SyntaxError as error:
            return f"what it plants is not Python: {error.msg}"
        if _alike(sound.body, planted.body, place.spans[0][0]):
            return "it changes nothing"
        return "" if self.tests else UNGUARDED


@functools.cache
def _read(path: Path) -> tuple[str, ast.Module]:
    """A file, as a text and as a tree."""
    text = path.read_text(encoding="utf-8")
    return text, ast.parse(text)


def _alike(sound: list[ast.stmt], planted: list[ast.stmt], line: int) -> bool:
    """Whether statements mean the same; what ends before a line was not changed."""
    return len(sound) == len(planted) and all(
        ast.dump(a) == ast.dump(b)
        for a, b in zip(sound, planted, strict=True)
        if (a.end_lineno or line) >= line
    )


Job = tuple[Mutant, tuple[str, ...]]  # with what pytest calls the tests that judge it


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one fault."""

    mutant: Mutant
    outcome: str  # killed, survived, timeout, broken; of a drawn fault also unknown
    by: str
    seconds: float


def read(table: Path) -> list[Mutant]:
    """The faults of a table, in its order; names are unique."""
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["mutant"]
    mutants = [
        Mutant(e["name"], e["breaks"], e["symbol"], e["old"], e["new"], tuple(e["tests"]))
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


def preload(scratch: Path) -> None:
    """Import the libraries once, in the parent: half of a small test's time. Never the package."""
    sys.dont_write_bytecode = True
    (scratch / "cache").mkdir()
    settings = {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
        "PYTEST_ADDOPTS": "",
        "JAX_ENABLE_X64": "1",
        "JAX_COMPILATION_CACHE_DIR": str(scratch / "cache"),
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


def judge_all(jobs: list[Job], sound: Tree, workers: int, limit: float) -> list[Result]:
    """All faults, `workers` at a time, each in a copy that is whole before and after.

    The first job is the baseline: all their tests on an unharmed copy. A test that fails there
    proves nothing: what it seems to kill is broken.
    """
    found: dict[str, Result] = {}
    already: set[str] = set()
    beside = Path(tempfile.mkdtemp(dir=sound.root.parent))
    free = [copy_of(sound.root, beside / f"tree-{i}") for i in range(workers)]
    everything = tuple(dict.fromkeys(t for _, tests in jobs for t in tests))
    waiting: list[tuple[Mutant | None, tuple[str, ...]]] = [(None, everything), *jobs]
    busy: list[tuple[Mutant | None, Run]] = []
    while waiting or busy:
        while waiting and free:
            (mutant, tests), tree = waiting.pop(0), free.pop()
            if mutant is None:
                run = Run(tree, ("--maxfail=1000", *tests), max(3600.0, limit))
            else:
                plant(mutant, sound, tree, back=False)
                run = Run(tree, tests, limit)
            busy.append((mutant, run))
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
            plant(mutant, sound, run.tree, back=True)
            r = found[mutant.name] = judged(mutant, *ended)
            print(f"{r.outcome:9}{r.seconds:6.0f} s  {mutant.name}  {r.by}", flush=True)
        time.sleep(0.05)
    results = [found[m.name] for m, _ in jobs]
    return [
        dataclasses.replace(r, outcome="broken") if r.by and r.by in already else r for r in results
    ]


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


def plant(mutant: Mutant, sound: Tree, tree: Path, *, back: bool) -> None:
    """Put the fault into a copy, or the sound passage back."""
    place = sound.code.find(mutant.symbol)
    text = (sound.root / place.file).read_text(encoding="utf-8")
    changed = text if back else place.replaced(text, mutant.old, mutant.new)
    (tree / place.file).write_text(changed, encoding="utf-8")


def draw(named: list[Mutant], where: list[str], number: int, seed: str) -> list[Mutant]:
    """Faults that nobody chose; their guards are those of the named faults in the same file."""
    tree = Tree(ROOT)
    guards: dict[str, list[str]] = {}
    for mutant in named:
        guards.setdefault(tree.code.find(mutant.symbol).file, []).extend(mutant.tests)
    found = (
        Mutant(
            f"{d.operator} in {d.symbol}, {d.file}:{d.line} ({i + 1})",
            d.operator,
            d.symbol,
            d.old,
            d.new,
            tuple(dict.fromkeys(guards.get(d.file, ()))),
        )
        for i, d in enumerate(random_faults.drawn(tree, where, seed))
    )
    plantable = (m for m in found if m.problem(tree) in ("", UNGUARDED))
    return list(itertools.islice(plantable, number))


def judge_drawn(mutants: list[Mutant], sound: Tree, workers: int, limit: float) -> list[Result]:
    """By the contract; what it does not notice, by the guards of its file (see the top)."""
    by_contract = judge_all([(m, CONTRACT) for m in mutants], sound, workers, limit)
    results = {r.mutant: r for r in by_contract}
    missed = [m for m, r in results.items() if r.outcome == "survived"]
    guarded = [(m, tuple(sound.test(t) for t in m.tests)) for m in missed if m.tests]
    by_guards = judge_all(guarded, sound, workers, limit) if guarded else []
    seen = {r.mutant: r for r in by_guards}
    for m in missed:
        changes = m in seen and seen[m].outcome in ("killed", "timeout")
        outcome = "survived" if changes else "unknown"
        by = seen[m].by if changes else ""
        results[m] = dataclasses.replace(results[m], outcome=outcome, by=by)
    return list(results.values())


def shown(result: Result) -> str:
    """A drawn fault that the contract missed, as an entry of the table."""
    m, by = result.mutant, f", but not {result.by}" if result.by else ""
    return f"{result.outcome}{by}: {m.name}\nold = '''{m.old}'''\nnew = '''{m.new}'''"


def page(results: list[Result], minutes: float, workers: int) -> str:
    """The table of a whole run."""
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
        "| fault | what it breaks | symbol | outcome | noticed by |",
        "|--|--|--|--|--|",
    ]
    for r in results:
        by = r.by.split("::")[-1].split("[")[0]
        lines.append(
            f"| {r.mutant.name} | {r.mutant.breaks} | `{r.mutant.symbol}` | {r.outcome} |"
            + (f" `{by}` |" if by else " |")
        )
    return "\n".join(lines) + "\n"


FAILED = r"^FAILED (\S+::[^\n]*?)(?: - [^\n]*)?$"
OUTCOMES = ("killed", "survived", "timeout", "broken")


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("-j", "--workers", type=int, default=2)
    parser.add_argument("--only", help="a regular expression for names")
    parser.add_argument("--check", action="store_true", help="only see that all can be planted")
    parser.add_argument("--contract", action="store_true", help="against the contract alone")
    parser.add_argument("--random", type=int, metavar="N", help="N faults that nobody chose")
    parser.add_argument("--seed", default="0", help="decides what --random draws")
    parser.add_argument("--files", nargs="+", help="files and symbols that --random draws from")
    parser.add_argument("--limit", type=float, help="seconds for one fault")
    options = parser.parse_args(arguments)
    if options.random is not None and not options.files:
        parser.error("--random needs --files: the files and symbols to draw from")
    if options.limit is None:
        options.limit = WHOLE if options.contract or options.random is not None else LIMIT
    return options


def counted(results: list[Result], outcomes: tuple[str, ...]) -> str:
    return ", ".join(f"{sum(r.outcome == o for r in results)} {o}" for o in outcomes)


def main(arguments: list[str] | None = None) -> int:
    """The command; exit code 1 unless every fault was noticed (of --random, nine of ten)."""
    options = read_options(arguments)
    mutants = [m for m in read(TABLE) if not options.only or re.search(options.only, m.name)]
    tree = Tree(ROOT)
    problems = [(m, p) for m in mutants if (p := m.problem(tree))]
    for mutant, problem in problems:
        print(f"not applicable: {mutant.name}: {problem}")
    if options.check or problems:
        print(f"{len(mutants) - len(problems)} of {len(mutants)} faults can be planted")
        return 1 if problems else 0
    if options.random is not None:
        mutants = draw(mutants, options.files, options.random, options.seed)
    begun = time.perf_counter()
    folder = tempfile.TemporaryDirectory(prefix="riemdp-mutants-", ignore_cleanup_errors=True)
    with folder as scratch:
        preload(Path(scratch))
        sound = Tree(copy_of(ROOT, Path(scratch) / "sound"))  # as it was when the run began
        if options.random is not None:
            results = judge_drawn(mutants, sound, options.workers, options.limit)
        else:
            named = [tuple(sound.test(t) for t in m.tests) for m in mutants]
            tests = [CONTRACT] * len(mutants) if options.contract else named
            jobs = list(zip(mutants, tests, strict=True))
            results = judge_all(jobs, sound, options.workers, options.limit)
    minutes = (time.perf_counter() - begun) / 60
    missed = [r for r in results if r.outcome not in ("killed", "timeout")]
    print(f"{len(results)} faults in {minutes:.1f} minutes: ", end="")
    if options.random is not None:
        print(counted(results, (*OUTCOMES, "unknown")))
        for result in missed:
            print(shown(result))
        survived = sum(r.outcome == "survived" for r in results)
        noticed = len(results) - len(missed)
        return 1 if noticed < SHARE * (noticed + survived) else 0
    print(counted(results, OUTCOMES))
    if options.contract:
        print("\n".join(f"missed by the contract: {r.mutant.name}" for r in missed))
    elif not options.only:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page(results, minutes, options.workers), encoding="utf-8")
        print(f"written: {PAGE}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
