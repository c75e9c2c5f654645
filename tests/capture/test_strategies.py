"""Which strategy `auto` chooses, by what is guessed before a first run."""

import pytest

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.instrument import instrument
from lineage_service.capture.strategies import Choice
from lineage_service.plan.build import build_plan
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.loader import load_workflow

MANY, FEW = 6_000_000, 10_000
SOURCES = "sources: {many: {path: many.parquet}, few: {path: few.parquet}, middle: {path: middle.parquet}}"
SIZES = Sizes({"many": MANY, "few": FEW, "middle": 1_500_000})
SCHEMA = Schema((Column("k", type="bigint"), Column("x", type="bigint"), Column("day", type="date")))


@pytest.fixture
def choices(tmp_path):
    def chosen(*steps: str) -> dict[str, Choice]:
        lines = "\n".join(f"- {{name: s{number}, {step}}}" for number, step in enumerate(steps))
        text = f"version: 1\nname: f\n{SOURCES}\nsteps:\n{lines}\noutputs: {{s{len(steps) - 1}: }}\n"
        (tmp_path / "f.yml").write_text(text, encoding="utf-8")
        plan = build_plan(load_workflow(tmp_path / "f.yml"), dict.fromkeys(("many", "few", "middle"), SCHEMA))
        found = instrument(plan, "auto", SIZES)
        return {each.node.step: each.choice for each in found.nodes if each.choice is not None}

    return chosen


def test_a_semi_join_of_few_rows_with_many_writes_those_that_match(choices):
    some = "op: filter, input: middle, where: \"day > DATE '2020-01-01' AND day < DATE '2020-03-01'\""
    late = 'op: filter, input: many, where: "x < k"'
    found = choices(some, late, "op: join, how: semi, left: s0, right: s1, using: [k]")["s2"]
    assert found.strategy == "stage" and found.is_reduced


def test_a_semi_join_of_many_rows_with_few_is_not_reduced(choices):
    found = choices("op: join, how: semi, left: many, right: few, using: [k]")["s0"]
    assert not found.is_reduced and found.strategy == "inject"


def test_rows_behind_a_join_whose_on_is_an_or_over_one_key_are_few(choices):
    on = " OR ".join(f"(a = k AND b = {n} AND x = {n} AND day = DATE '2020-01-0{n}')" for n in (1, 2, 3))
    found = choices(
        "op: project, input: many, columns: {a: k, b: x}",
        f'op: join, left: s0, right: few, on: "{on}"',
        "op: aggregate, input: s1, by: [], measures: {n: max(day)}",
    )
    assert found["s2"].strategy == "inject"


@pytest.mark.parametrize(("measure", "strategy"), [("count(x)", "inject"), ("count(DISTINCT x)", "stage")])
def test_lists_beside_a_measure_of_distinct_values_are_dear(choices, measure, strategy):
    found = choices(
        "op: join, left: middle, right: few, using: [k], how: anti",
        'op: filter, input: s0, where: "x = 1 AND k < 9"',
        f"op: aggregate, input: s1, by: [k], measures: {{n: {measure}}}",
    )
    assert found["s2"].strategy == strategy


def test_many_groups_that_no_dataset_shows_are_not_listed(choices):
    """They would be written with their lists, and read again."""
    below = (
        "op: join, left: middle, right: few, using: [k], how: anti",
        'op: filter, input: s0, where: "x < 9"',
        "op: aggregate, input: s1, by: [k], measures: {n: max(day)}",
    )
    assert choices(*below)["s2"].strategy == "inject"
    assert choices(*below, "op: join, left: few, right: s2, using: [k]")["s2"].strategy == "stage"


def test_a_list_of_everything_is_one_row_wherever_it_is_read(choices):
    found = choices(
        'op: filter, input: middle, where: "x = 1"',
        "op: aggregate, input: s0, by: [], measures: {n: max(day)}",
        "op: join, left: few, right: s1, how: cross",
    )
    assert found["s1"].strategy == "inject"
