"""A type checker knows what `import riemdp` offers: a user's script, right and with mistakes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOOD = """
import numpy as np
import riemdp
from riemdp.report import privacy_report

space = riemdp.SPDAffineInvariant(3)
X = np.tile(np.eye(3), (100, 1, 1))
budget = riemdp.Budget(1.0, 1e-5)
release = riemdp.private_frechet_mean(space, X, riemdp.Ball(np.eye(3), 1.0), budget)
reveal_type(release)
reveal_type(release.guarantee)
with riemdp.Ledger(budget) as ledger:
    model = riemdp.PrivateMDM(metric="riemann", budget=budget).fit(X, np.arange(100) % 2)
privacy_report(release, record_is="one scan").save("report.html")
"""
MISTAKES = {
    "privat_frechet_mean": "riemdp.privat_frechet_mean(space, X, ball, budget)",
    "mechansim": "riemdp.private_frechet_mean(space, X, ball, budget, mechansim='auto')",
    "Sphere": "riemdp.private_frechet_mean(riemdp.Sphere, X, ball, budget)",
    "guarante": "riemdp.private_frechet_mean(space, X, ball, budget).guarante",
}
HEAD = """
import numpy as np
import riemdp

space, X = riemdp.Sphere(3), np.ones((4, 3))
ball, budget = riemdp.Ball(np.ones(3), 0.5), riemdp.Budget(1.0)
"""


def told(folder: Path) -> list[dict]:
    pyright = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if pyright is None:
        pytest.skip("pyright is not installed beside this Python")
    run = subprocess.run(
        [pyright, "--outputjson", "--pythonpath", sys.executable, str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    return json.loads(run.stdout)["generalDiagnostics"]


@pytest.mark.slow
def test_a_users_script_is_checked(tmp_path):
    (tmp_path / "good.py").write_text(GOOD)
    first = len(HEAD.splitlines())
    (tmp_path / "bad.py").write_text(HEAD + "\n".join(MISTAKES.values()) + "\n")
    everything = told(tmp_path)
    good = [d for d in everything if d["file"].endswith("good.py")]
    assert [d["message"] for d in good if d["severity"] == "error"] == []
    shown = " ".join(d["message"] for d in good if d["severity"] == "information")
    assert '"Release"' in shown
    assert '"Guarantee"' in shown
    wrong = {
        d["range"]["start"]["line"]: d["message"]
        for d in everything
        if d["file"].endswith("bad.py") and d["severity"] == "error"
    }
    for i, name in enumerate(MISTAKES):
        assert name in wrong.get(first + i, ""), (name, wrong)
