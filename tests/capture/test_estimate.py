"""Guesses of how many rows a step will have."""

import pytest

from lineage_service.capture.estimate import Estimate, Sizes, estimate_rows, selectivity
from lineage_service.plan.build import build_plan
from lineage_service.plan.expressions import Expression
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.loader import load_workflow

SHARES = {
    "x = 1": 0.1,
    "x <> 1": 0.9,
    "x < 1": 0.33,
    "x BETWEEN 1 AND 2": 0.25,
    "x IN (1, 2, 3)": 0.3,
    "x IN (1, 2, 3, 4, 5, 6, 7)": 0.5,
    "NOT x = 1": 0.9,
    "(x = 1) AND y = 2": 0.01,
    "x = 1 OR y = 2": 0.19,
    "s LIKE 'a%'": 0.1,
    "isnotnull(x)": 0.33,
}


@pytest.mark.parametrize(("predicate", "share"), SHARES.items())
def test_the_share_of_rows_that_a_predicate_keeps(predicate, share):
    assert selectivity(Expression(predicate)) == pytest.approx(share)


# Over a of 1000 rows and b of 100 rows.
ROWS = {
    "{op: filter, input: a, where: k = 1}": 100,
    "{op: project, input: a, columns: [k]}": 1000,
    "{op: project, input: a, columns: {e: explode(array(k))}}": 3000,
    "{op: limit, input: a, n: 10, by: [k]}": 10,
    "{op: limit, input: b, n: 500, by: [k]}": 100,
    "{op: aggregate, input: a, by: [k], measures: {n: count(*)}}": 300,
    "{op: aggregate, input: a, by: [], measures: {n: count(*)}}": 1,
    "{op: distinct, input: a}": 300,
    "{op: union, inputs: [a, b]}": 1100,
    "{op: difference, left: a, right: b}": 500,
    "{op: join, left: a, right: b, using: [k]}": 1000,
    "{op: join, left: a, right: b, using: [k], how: semi}": 500,
    "{op: join, left: a, right: c, how: cross}": 100_000,
    "{op: join, left: b, right: c, on: k < j, how: full}": 3300,
    "{op: join, left: a, right: c, on: k = j OR k < j}": 39_700,
    "{op: join, left: a, right: c, on: (k = j AND k > 1) OR (j = k AND j > 2)}": 1000 * (1 - (1 - 0.033) ** 2) / 0.1,
    "{op: join, left: a, right: c, on: k = j AND (k = 1 OR j = 2)}": 190,
}


@pytest.fixture
def guess(tmp_path):
    """The estimate of a step over a (1000 rows), b and c (100 rows each)."""

    def guessed(step: str, sizes: Sizes | None = None) -> Estimate | None:
        sources = "sources: {a: {path: a.parquet}, b: {path: b.parquet}, c: {path: c.parquet}}"
        text = f"version: 1\nname: f\n{sources}\nsteps:\n- {{name: o, {step[1:]}\noutputs: {{o: }}\n"
        (tmp_path / "f.yml").write_text(text, encoding="utf-8")
        schemas = {name: Schema((Column("j" if name == "c" else "k", type="int"),)) for name in "abc"}
        known = sizes or Sizes({"a": 1000, "b": 100, "c": 100})

        def estimate(node) -> Estimate | None:
            return estimate_rows(node, [estimate(each) for each in node.inputs], known)

        return estimate(build_plan(load_workflow(tmp_path / "f.yml"), schemas).steps["o"])

    return guessed


@pytest.mark.parametrize(("step", "rows"), ROWS.items())
def test_rows_of_each_operator(guess, step, rows):
    found = guess(step)
    assert found.rows == pytest.approx(rows) and not found.remembered


def test_nothing_is_guessed_of_a_source_of_unknown_size(guess):
    assert guess("{op: union, inputs: [a, b]}", Sizes({"a": 1000, "b": None})) is None


def test_what_the_last_run_gave_is_remembered(guess):
    found = guess("{op: union, inputs: [a, b]}", Sizes({"a": 1000, "b": None}, rows={"o": 77}))
    assert (found.rows, found.scanned, found.remembered) == (77, 1000, True)
