# Everything the project needs is installed into .venv from its own files.
PYTHON ?= python3
BIN := .venv/bin

# Two workers; files stay whole, since their tests share runs of Spark.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: venv demo lint types layers unit fast test test-all soak clean

venv: .venv/.ready

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch .venv/.ready

# Spark's classes for the tests' Java processes, loaded once; without the file they only take longer.
.venv/spark.jsa: .venv/.ready
	-$(BIN)/python -m tests.support.class_archive .venv/spark.jsa
	touch .venv/spark.jsa

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

unit: venv .venv/spark.jsa
	$(PYTEST) -m "not slow"

# While you work: lint, types, layers, and the tests without Spark, server and wheel that take no more than seconds.
fast: lint types layers
	$(PYTEST) -m "not slow and not long and not spark and not server and not wheel"

# What CI runs: everything but the tests that take long.
test: lint types layers unit

# Before a release: those too.
test-all: lint types layers .venv/spark.jsa
	$(PYTEST)

# Does luck decide? Twenty runs of the tests that were once timed, every second one with all cores kept busy.
soak: venv .venv/spark.jsa
	$(BIN)/python -m tests.soak

clean:
	rm -rf .venv demo .mypy_cache .ruff_cache .pytest_cache
