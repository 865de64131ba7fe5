# Everything a user or CI needs. `make demo` and `make test` work on a fresh machine with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
OUT    ?= riemdp-demo
# Two workers: the suite is sized for two cores; each worker keeps to one BLAS thread (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
UV_VERSION := 0.12.24

.PHONY: help setup demo test test-slow test-flower test-gpu bench lint audit mutants docs docs-version conformance package clean
help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

setup: $(READY)  ## virtual environment with pinned dependencies (the shared step)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "riemdp needs Python 3.11 or newer; run make PYTHON=python3.12 setup"'
	$(BIN)/python -m pip install -q --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[images]' --group test --group lint --group papers
	touch $(READY)

demo: $(READY)  ## real images -> private mean, plot, report (in $(OUT)/)
	$(BIN)/riemdp demo --out $(OUT)

# Compilation is half of the tests' time, and most functions run once: the compiler's quickest settings serve them best. Demo, slow
# tests and benchmarks use its normal ones.
# Half of what a process of its own costs is to read sources of packages once more, where nothing may keep what was read of them.
# Assertions are rewritten, which takes each worker eight seconds, for those that failed alone: they run once more and show their values.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)  ## the tests (about 10 minutes on two cores)
	export XLA_FLAGS="$${XLA_FLAGS-$$($(BIN)/python tools/quick_flags.py)}"; \
	$(PYTEST) --assert=plain || { $(BIN)/python -m pytest --lf --lfnf=none; false; }

conformance: $(VENV)/.ready-conformance  ## installs the peer libraries that tests compare with
$(VENV)/.ready-conformance: $(READY)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt --group conformance
	touch $@
$(VENV)/.ready-federated: $(READY)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[images,federated]'
	touch $@

$(VENV)/.ready-large: $(READY)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[images,large,dask]'
	touch $@

test-slow: $(VENV)/.ready-conformance $(VENV)/.ready-federated $(VENV)/.ready-large  ## long statistics, peers, a real federated deployment
	$(PYTEST) -m 'slow or conformance or federated_deployment'

test-flower: $(VENV)/.ready-federated  ## the messages of the Flower adapter, in process
	$(PYTEST) -m flower_messages tests/federated

test-gpu: $(READY)  ## the tests that need an accelerator; skipped where JAX sees none (docs/scale.md)
	$(BIN)/python -m pytest -m gpu -rs tests/test_accelerator.py

bench: $(VENV)/.ready-conformance  ## timings beside the best peer or a hand-written floor (bench/results/)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m bench

audit: $(READY)  ## attack every mechanism and optimiser; table of lower bounds beside the claims
	$(BIN)/python -m tools.audit_table

mutants: $(VENV)/.ready-large  ## plant faults in the code that privacy rests on; a test must notice each (out/mutants.md)
	$(BIN)/python tools/mutants.py

CODE := src papers tests bench tools examples docs
lint: $(READY)  ## ruff (rules and format), the words of the pages, and pyright
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/python tools/language.py
	$(BIN)/pyright

$(VENV)/.ready-docs: $(READY)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt -e '.[images,docs]'
	touch $@
docs: $(VENV)/.ready-docs  ## the documentation site, strict (in site/)
	$(BIN)/mkdocs build --strict

PAGES ?= site-versions
docs-version: $(VENV)/.ready-docs  ## the site of this version beside those of others (in $(PAGES)/)
	$(BIN)/python tools/docs_version.py $(PAGES)

$(VENV)/.ready-build: $(READY)
	$(BIN)/uv pip install -q --python $(BIN)/python -c constraints.txt --group build
	touch $@
package: $(VENV)/.ready-build  ## what publishing does but the upload: build, check, install, release
	tools/publish_dry.sh

clean:  ## remove what make made
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .hypothesis
