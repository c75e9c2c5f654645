# Everything the project needs is installed into .venv from its own files.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: venv lint types layers unit test test-slow clean

venv: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch .venv/.ready

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

test-slow: venv
	$(BIN)/pytest -m slow

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
