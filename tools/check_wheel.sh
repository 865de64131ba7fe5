#!/usr/bin/env bash
# Builds the wheel and makes sure that it installs and releases a private mean in an empty environment, for each Python given
# (default: whichever of 3.11, 3.12, 3.13 this machine has).
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/uv build -q --wheel --out-dir "$work"
pythons=("$@")
[ ${#pythons[@]} -gt 0 ] || for v in 3.11 3.12 3.13; do command -v "python$v" >/dev/null 2>&1 && "python$v" -c '' 2>/dev/null && pythons+=("python$v"); done
for python in "${pythons[@]}"; do
  "$python" -m venv "$work/env"
  .venv/bin/uv pip install -q --python "$work/env/bin/python" -c constraints.txt "$work"/riemdp-*.whl
  (cd "$work" && "$work/env/bin/python" - <<'PY'
import sys
import numpy as np
import riemdp
m = riemdp.SPDLogEuclidean(3)
x = np.stack([np.diag([1.0, 2.0, 0.5])] * 50)
r = riemdp.private_frechet_mean(m, x, riemdp.Ball(np.eye(3), 2.0), riemdp.Budget(1.0, 1e-5))
assert r.guarantee.epsilon(1e-5) <= 1.0 and not r.reproducible
assert riemdp.privacy.subsampled_gaussian(1.0, population=1000, batch_size=10, steps=100).epsilon(1e-5) > 0
print("riemdp", riemdp.__version__, "works on Python", sys.version.split()[0])
PY
  "$work/env/bin/riemdp" --version)
  rm -rf "$work/env"
done
