# `make demo` and `make test` need only Python >= 3.11, make and a package index.
PYTHON ?= python3
VENV   ?= .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

.PHONY: demo test test-federation check docs notebooks package bench clean

demo: $(VENV)/.demo
	$(BIN)/unalike demo

test: check
	$(BIN)/python -m pytest -n auto -m "not federation"

# Real servers and sites in processes of their own, on loopback: some minutes. Linux or macOS.
test-federation: export OMP_NUM_THREADS := 1
test-federation: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m federation $(FEDERATION)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation as a site that opens from a folder, without a network: build/site/index.html
docs: export NO_MKDOCS_2_WARNING := 1
docs: export PYTHONPATH := site
docs: $(VENV)/.dev
	$(BIN)/mkdocs build --quiet -f site/mkdocs.yml

# Runs the notebooks from beginning to end, into build/notebooks; `make docs` then shows them, outputs and all.
notebooks: $(VENV)/.dev
	$(BIN)/python notebooks/run.py

# Wheel and source archive in dist/, checked. The tools have an environment of their own: some packages clash with theirs.
package:
	$(PYTHON) -m venv $(VENV)-package
	$(VENV)-package/bin/python -m pip install --quiet -c constraints.txt build twine
	rm -rf dist
	$(VENV)-package/bin/python -m build
	$(VENV)-package/bin/twine check --strict dist/*

# Writes its tables into docs/performance.md; peers get environments of their own. To try it: make bench BENCH=--quick
bench: export OMP_NUM_THREADS := 1
bench: BENCH ?= --write
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.rounds $(BENCH)
	$(BIN)/python -m benchmarks.scale $(BENCH)
	$(BIN)/python -m benchmarks.engines $(BENCH)
	$(BIN)/python -m benchmarks.engines --sizes $(BENCH)
	$(BIN)/python -m benchmarks.phases $(BENCH)
	$(BIN)/python -m benchmarks.mixtures $(BENCH)

$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'unalike needs Python 3.11 or newer: make PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	$(BIN)/python -c "open('$@', 'w').close()"

$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	$(BIN)/python -c "open('$@', 'w').close()"

clean:
	rm -rf $(VENV) $(VENV)-package build dist runs .mypy_cache .ruff_cache .pytest_cache
