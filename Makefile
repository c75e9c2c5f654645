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

# A story over real data, in the folder demo/: a number that looks wrong, the records behind it, one person's way.
demo: venv
	$(BIN)/smoke-lineage demo demo

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

unit: venv
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

test: lint types layers unit

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache
