#!/usr/bin/env bash
# Everything that publishing does but the upload: builds the source distribution and, from it, the wheel; checks their metadata and
# the page that an index would show; looks at what is in them; installs the wheel in an empty environment and releases with it.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
.venv/bin/python -m build -o "$work/dist" .
.venv/bin/python -m twine check --strict "$work"/dist/*
.venv/bin/python - "$work/dist" <<'PY'
import pathlib
import re
import sys
import tarfile
import zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
inside = zipfile.ZipFile(wheel).namelist()
sources = tarfile.open(source).getnames()
code = sorted(p.relative_to("src").as_posix() for p in pathlib.Path("src/riemdp").rglob("*") if p.is_file())
code = [name for name in code if "__pycache__" not in name]
missing = [name for name in code if name not in inside]
strange = [n for n in inside if not n.startswith(("riemdp/", "riemdp-"))]
assert not missing, f"the wheel lacks {missing}"
assert not strange, f"the wheel holds {strange}"
(about,) = (n for n in inside if n.endswith(".dist-info/METADATA"))
page = zipfile.ZipFile(wheel).read(about).decode().partition("\n\n")[2]
broken = re.findall(r"\]\((?!https?://|#)[^)]*\)", page)
assert "private_frechet_mean" in page and not broken, f"the page that an index shows has relative addresses: {broken}"
for name in ("LICENSE", "README.md", "CHANGELOG.md", "constraints.txt"):
    assert any(n.endswith("/" + name) for n in sources), f"the source distribution lacks {name}"
print(f"{wheel.name}: {len(inside)} files, {wheel.stat().st_size / 1e6:.1f} MB; {source.name}: {len(sources)} files")
PY
python3 -m venv "$work/env"
.venv/bin/uv pip install -q --python "$work/env/bin/python" -c constraints.txt "$work"/dist/riemdp-*.whl
(cd "$work" && env -u PYTHONPATH "$work/env/bin/python" - <<'PY'
import importlib
import pkgutil

import numpy as np

import riemdp

for found in pkgutil.walk_packages(riemdp.__path__, "riemdp.", onerror=lambda name: None):
    try:  # without extras a module may ask for one, and do nothing else
        importlib.import_module(found.name) if not found.name.endswith("__main__") else None
    except riemdp.MissingExtra:
        print(found.name, "needs an extra")

space = riemdp.SPDLogEuclidean(3)
records = np.stack([np.diag([1.0, 2.0, 0.5])] * 50)
ball, budget = riemdp.Ball(np.eye(3), 2.0), riemdp.Budget(1.0, 1e-5)
release = riemdp.private_frechet_mean(space, records, ball, budget)
assert release.guarantee.within(budget) and not release.reproducible
np.save("records.npy", records)
print("riemdp", riemdp.__version__, "was installed from its wheel and released a mean")
PY
"$work/env/bin/riemdp" mean records.npy --radius 2 -e 1 -d 1e-5 --report report.html --out mean.csv > shown.txt
test -s report.html && test -s mean.csv && grep -q guarantee shown.txt
"$work/env/bin/riemdp" --version)
echo "ready to publish; nothing was uploaded"
