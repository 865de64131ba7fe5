"""Write docs/results from folders of results: `python -m papers.tools.results_pages RESULTS...`.

The pages of `PAGE_OF` keep what people wrote. Between the two markers of a paper this script writes
each artefact's picture, the command, how it was run and the verdict, folded up, and copies the
pictures and the CSV files. Where several folders hold an artefact, a full run is taken before a
quick one, then the later folder.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from pathlib import Path

from PIL import Image

from papers import PAPERS, names
from papers.tables import DOCS, write_between

PAGE_OF = {
    "reimherr2021": "means.md",
    "utpala2023le": "means.md",
    "han2024": "optimisers.md",
    "utpala2023": "optimisers.md",
    "huang2024": "optimisers.md",
}
PAGES = DOCS / "results"


def chosen(folders: list[Path]) -> dict[str, tuple[Path, dict]]:
    """Name -> (folder, meta) of the result to show."""
    found: dict[str, tuple[Path, dict]] = {}
    for name in names():
        for folder in folders:
            path = folder / name / "meta.json"
            if path.is_file():
                meta = json.loads(path.read_text())
                if name not in found or not meta["quick"] or found[name][1]["quick"]:
                    found[name] = folder / name, meta
    return found


def section(name: str, folder: Path, meta: dict) -> str:
    """One artefact, as a block of Markdown that a reader opens."""
    verdict = (folder / "verdict.md").read_text()
    body = verdict[verdict.index("**Data.**") : verdict.index("These are simulations")].strip()
    mode = "quick" if meta["quick"] else "full"
    spent = (
        f"{meta['processor_seconds']:.0f} s of processor time"
        if "processor_seconds" in meta
        else f"{meta['seconds']:.0f} s"
    )
    text = (
        f"![{meta['title']}](figures/{name}.png)\n\n`python -m papers run"
        f" {name} --{mode}` ({spent}; numbers: [CSV](data/{name}.csv))\n\n{body}"
    )
    return f'??? quote "{meta["title"]}"\n\n' + textwrap.indent(text, "    ") + "\n"


def small(source: Path, target: Path) -> None:
    """The picture with 128 colours: a quarter of the bytes, the same to the eye."""
    with Image.open(source) as picture:
        few = picture.convert("RGB").quantize(
            128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
        )
        few.save(target, optimize=True)


def main(folders: list[Path]) -> None:
    found = chosen(folders)
    (PAGES / "figures").mkdir(exist_ok=True)
    (PAGES / "data").mkdir(exist_ok=True)
    for name, (folder, _) in found.items():
        shutil.copyfile(folder / "data.csv", PAGES / "data" / f"{name}.csv")
        small(folder / "figure.png", PAGES / "figures" / f"{name}.png")
    for paper in PAPERS:
        own = [section(name, *found[name]) for name in found if name.startswith(paper + "-")]
        page = PAGES / PAGE_OF[paper]
        write_between(page, f"the artefacts of {paper}", "\n".join(own).rstrip())
    missing = [name for name in names() if name not in found]
    print(
        f"{len(found)} artefacts written" + (f"; missing: {', '.join(missing)}" if missing else "")
    )


if __name__ == "__main__":
    main([Path(x) for x in sys.argv[1:]])
