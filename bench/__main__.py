"""Run every `bench_*.py` of this folder, or those whose names are given: `python -m bench
[tangent_normal ...]`.

Each writes its own table; the rows of all of them, also of earlier runs, go into
`results/summary.csv` and `.md`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from ._timing import write_summary


def main() -> None:
    known = sorted(
        path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py")
    )
    wanted = sys.argv[1:] or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(known)}")
    for name in wanted:
        print(f"== {name}", flush=True)
        sys.argv = [f"bench_{name}"]  # a benchmark's own options are for when it is run by itself
        importlib.import_module(f"bench.bench_{name}").main()
    print(write_summary())


if __name__ == "__main__":
    main()
