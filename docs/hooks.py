"""Put pages into the navigation that are not listed in mkdocs.yml: measured results that are
written by programs.
"""

from __future__ import annotations

from pathlib import Path

# Shown first, in this order; whatever else exists follows by name.
ORDER = [
    "guarantees.md",
    "published-and-certified-noise.md",
    "mechanism-comparison.md",
    "optimisers.md",
    "eigenvectors.md",
    "excess-risk.md",
    "mdm-on-erp.md",
    "accuracy.md",
    "audit.md",
    "results/index.md",
]


def on_config(config):
    docs = Path(config["docs_dir"])
    listed = set(_pages(config["nav"]))
    found = [p.relative_to(docs).as_posix() for p in sorted(docs.rglob("*.md"))]
    rest = [name for name in found if name not in listed]
    rest.sort(key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    if rest:
        config["nav"].insert(-2, {"Measured": [{_title(docs / name): name} for name in rest]})
    return config


def _pages(nav):
    for entry in nav:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, list):
                yield from _pages(value)
            else:
                yield value


def _title(page: Path) -> str:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return page.stem.replace("-", " ")
