# Two commands do everything on a fresh machine: `make simulate` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: simulate test lint bench clean
simulate: .venv/.train
	$(BIN)/fedrean simulate $(OVERRIDES)

test: .venv/.dev
	$(BIN)/python -m pytest

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.train
	for bench in simulations/benchmarks/[a-z]*.py; do $(BIN)/python -m simulations.benchmarks.$$(basename $$bench .py) || exit 1; done

.venv/.train: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -e ".[train]"
	touch $@

.venv/.dev: .venv/.train
	$(BIN)/pip install --quiet -e ".[train,dev]"
	touch $@

clean:
	rm -rf .venv
