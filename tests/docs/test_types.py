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
rng = np.random.default_rng(0)
signals = rng.normal(size=(600, 3, 40))
X = signals @ signals.transpose(0, 2, 1) / 40
person = np.arange(600) // 2
labels = (X[:, 0, 0] > 1).astype(int)
budget = riemdp.Budget(epsilon=1.0, delta=1e-5)
ball = riemdp.Ball(np.eye(3), radius=1.0)

plan = riemdp.plan_private_mean(space, riemdp.AdaptiveBall(), 600, budget)
print(plan, plan.rows[0].noise_factor)
release = riemdp.private_frechet_mean(space, X, ball, budget, groups=person)
reveal_type(release)
reveal_type(release.guarantee)
print(release.guarantee.epsilon(1e-5), release.expected_error, release.details["n"])
print(release.confidence_region(0.95).radius)
with riemdp.Ledger(riemdp.Budget(3.0, 1e-4), path="ledger.json") as ledger:
    model = riemdp.PrivateMDM(metric="riemann", budget=budget).fit(X, labels)
    components = riemdp.PrivatePCA(n_components=1, budget=budget, row_norm=1.0).fit(X[:, 0])
    problem = riemdp.problems.frechet_mean(space, ball=ball)
    local = riemdp.DPRGD(steps=3, learning_rate=0.25, sensitivity="domain")
    result = riemdp.private_minimize(problem, X, np.eye(3), local, budget)
print(model.predict(X[:3]), components.components_, result.value, ledger.remaining(1e-4))
try:
    ledger.spend(riemdp.privacy.pure(9.0), what="too much")
except riemdp.BudgetExceeded as refusal:
    print(refusal)
privacy_report(release, record_is="one scan", ledger=ledger).save("report.html")
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
