"""Put pages into the navigation that exist in some builds only: measured results, and the federated room."""

from __future__ import annotations

from pathlib import Path

MEASURED = [
    ("What is guaranteed, and against whom", "guarantees.md"),
    ("Published noise and certified noise", "published-and-certified-noise.md"),
    ("Mechanisms compared", "mechanism-comparison.md"),
    ("Accuracy of the geometry", "accuracy.md"),
    ("Optimisers", "optimisers.md"),
    ("Excess risk on real data", "excess-risk.md"),
    ("PrivateMDM on ERP data", "mdm-on-erp.md"),
    ("Federated", "federated.md"),
    ("Audit of the guarantees", "audit.md"),
]


def on_config(config):
    docs = Path(config["docs_dir"])
    found = [{title: name} for title, name in MEASURED if (docs / name).exists()]
    listed = {name for _, name in MEASURED}
    results = sorted(p for p in (docs / "results").rglob("*.md")) if (docs / "results").is_dir() else []
    index = [p for p in results if p.name == "index.md"] or results
    found += [{_title(p): p.relative_to(docs).as_posix()} for p in index if p.relative_to(docs).as_posix() not in listed]
    if found:
        config["nav"].insert(-2, {"Measured": found})
    return config


def _title(page: Path) -> str:
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return page.stem.replace("-", " ")
