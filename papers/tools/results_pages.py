"""Write docs/results from folders of results: `python -m papers.tools.results_pages RESULTS...`.

Every page `docs/results/<paper>.md` keeps what people wrote above the marker line; below it, this
script writes each artefact's picture, the command, how it was run and the verdict, and copies the
pictures and the CSV files. Where several folders hold an artefact, a full run is taken before a
quick one, then the later folder.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from PIL import Image

from papers import PAPERS, names

MARKER = "<!-- Written from here on by papers/tools/results_pages.py: edit the experiments. -->"
PAGES = Path(__file__).parents[2] / "docs" / "results"


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
    """One artefact, as Markdown."""
    verdict = (folder / "verdict.md").read_text()
    body = verdict[verdict.index("**Data.**") : verdict.index("These are simulations")].strip()
    mode = "quick" if meta["quick"] else "full"
    spent = (
        f"{meta['processor_seconds']:.0f} s of processor time"
        if "processor_seconds" in meta
        else f"{meta['seconds']:.0f} s"
    )
    return (
        f"## {meta['title']}\n\n![{meta['title']}](figures/{name}.png)\n\n`python -m papers run"
        f" {name} --{mode}` ({spent}; numbers: [CSV](data/{name}.csv))\n\n{body}\n"
    )


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
        page = PAGES / f"{paper}.md"
        head = page.read_text().split(MARKER)[0].rstrip()
        own = [section(name, *found[name]) for name in found if name.startswith(paper + "-")]
        page.write_text("\n".join([head, "", MARKER, "", *own]))
    missing = [name for name in names() if name not in found]
    print(
        f"{len(found)} artefacts written" + (f"; missing: {', '.join(missing)}" if missing else "")
    )


if __name__ == "__main__":
    main([Path(x) for x in sys.argv[1:]])
