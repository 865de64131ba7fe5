"""Make the pictures of the documentation again: `python docs/make_pictures.py`. Needs chromium for
the picture of the report.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PICTURES = HERE / "pictures"
SESSION = [
    "riemdp plan --records 400 --size 3 --radius 2 --delta 1e-5 --epsilon 1 --metric log-euclidean",
    "riemdp ledger create patients.json --epsilon 2 --delta 1e-5",
    (
        "riemdp mean scans.npy --metric log-euclidean --radius 2 --epsilon 1 --delta 1e-6 --ledger"
        " patients.json --report report.html"
    ),
    (
        "riemdp mean broken.npy --metric log-euclidean --radius 2 --epsilon 1 --delta 1e-6 --ledger"
        " patients.json"
    ),
    "riemdp ledger show patients.json",
]


def examples() -> None:
    for file in sorted((HERE.parent / "examples").glob("*.py")):
        subprocess.run([sys.executable, str(file), str(PICTURES)], check=True)


def terminal_and_report(folder: Path) -> None:
    from rich.console import Console
    from rich.text import Text

    a = np.random.default_rng(11).normal(size=(400, 3, 30))
    records = a @ a.transpose(0, 2, 1) / 30
    np.save(folder / "scans.npy", records)
    records[17, 0, 1] = np.nan
    np.save(folder / "broken.npy", records)
    screen = Console(record=True, width=112, file=(folder / "session.txt").open("w"))
    for line in SESSION:
        screen.print(Text("$ ", style="green") + Text(line, style="bold"))
        shown = subprocess.run(
            [sys.executable, "-c", "from riemdp.cli import main; main()", *line.split()[1:]],
            cwd=folder,
            text=True,
            capture_output=True,
            env={
                "COLUMNS": "112",
                "FORCE_COLOR": "1",
                "TERM": "xterm-256color",
                "PATH": "/usr/bin:/bin",
            },
        )
        screen.print(Text.from_ansi((shown.stdout + shown.stderr).rstrip()))
        screen.print()
    svg = screen.export_svg(title="riemdp")
    (PICTURES / "terminal.svg").write_text(re.sub(r"@font-face\s*{.*?}", "", svg, flags=re.DOTALL))
    browser = shutil.which("chromium")
    if browser:
        profile = folder / "profile"
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--hide-scrollbars",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                f"--user-data-dir={profile}",
                f"--screenshot={PICTURES / 'report.png'}",
                "--window-size=1100,1060",
                f"file://{folder / 'report.html'}",
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    if "--session-only" not in sys.argv:
        examples()
    with tempfile.TemporaryDirectory() as made:
        terminal_and_report(Path(made))
