"""Build the documentation of this version beside those of earlier ones: PAGES/0.2.0/ and so on.

`PAGES/versions.json` lists them, newest first, and the pages offer the list. `PAGES/index.html`
leads to the newest version that is no pre-release. Run it once for each tag, on the folder that a
web server shows; other versions in it are left as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_REDIRECT = (
    '<!doctype html><meta http-equiv="refresh" content="0; url={0}/">'
    '<a href="{0}/">riemdp {0}</a>\n'
)


def key(version: str) -> tuple[list[int], bool]:
    """By which versions are ordered: 0.10.0 is above 0.9.0, and 1.0.0rc1 below 1.0.0."""
    final = re.match(r"\d+(\.\d+)*", version)
    if final is None:
        raise SystemExit(f"{version!r} is no version")
    return [int(part) for part in final[0].split(".")], final[0] == version


def listed(known: list[dict], version: str) -> list[dict]:
    """The list with this version in it, newest first; the newest final one is "latest"."""
    names = sorted({version, *(entry["version"] for entry in known)}, key=key, reverse=True)
    latest = next((name for name in names if key(name)[1]), names[0])
    return [
        {"version": name, "title": name, "aliases": ["latest"] if name == latest else []}
        for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path, help="folder of the site with all versions")
    pages = parser.parse_args().pages.resolve()
    code = (ROOT / "src/riemdp/_version.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "([^"]+)"', code)[1]
    built = pages / f".{version}"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"RIEMDP_DOCS_VERSIONED": "1"})
    shutil.rmtree(pages / version, ignore_errors=True)
    built.rename(pages / version)
    file = pages / "versions.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    every = listed(known, version)
    file.write_text(json.dumps(every, indent=1) + "\n", encoding="utf-8")
    latest = next(entry["version"] for entry in every if entry["aliases"])
    (pages / "index.html").write_text(_REDIRECT.format(latest), encoding="utf-8")
    print(f"{pages / version}; versions: {', '.join(entry['version'] for entry in every)}")


if __name__ == "__main__":
    main()
