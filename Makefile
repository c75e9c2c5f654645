# Everything the project needs is installed into .venv from its own files.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: venv demo lint types layers unit test clean

venv: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch .venv/.ready

# The shop example in a home of its own: a number, the records behind it, and what one record went into.
demo: export SMOKE_HOME = .venv/demo
demo: venv
	$(BIN)/smoke-lineage run workflows/shop/revenue.yml
	$(BIN)/smoke-lineage rows ranked --limit 3
	$(BIN)/smoke-lineage backward ranked --rid 0 --to items --limit 5
	$(BIN)/smoke-lineage forward customers --key customer_id=6 --to all

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

unit: venv
	$(BIN)/pytest

test: lint types layers unit

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
