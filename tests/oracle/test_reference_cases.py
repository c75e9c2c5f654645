"""Every case file, whose expectations are worked by hand, against the oracle."""

import datetime
from decimal import Decimal
from itertools import permutations
from pathlib import Path

import pytest
import sqlglot
from ruamel.yaml import YAML
from sqlglot import exp

from lineage_service.spec.step_models import STEP_TYPES
from tests.oracle.reference import Map, RefRow, canonical, evaluate
from tests.support.paths import CASES

GUESSED = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "STRING"}
OPTIONAL = {"outputs", "keep", "ordered", "oracle"}


def load(path: Path) -> dict:
    with path.open(encoding="utf-8") as file:
        return YAML(typ="safe", pure=True).load(file)


def typed_table(table) -> tuple[dict[str, str], list[dict]]:
    """Schema and rows of a table in the short form (rows) or the long one (schema and files)."""
    if isinstance(table, list):
        schema = {}
        for row in table:
            schema |= {name: GUESSED[type(value)] for name, value in row.items() if value is not None}
        assert all(row.keys() == schema.keys() for row in table), "a column without a type"
        return {name: schema[name] for name in table[0]}, table
    tree = sqlglot.parse_one(f"CREATE TABLE t ({table['schema']})", dialect="spark")
    kinds = {column.name: column.args["kind"] for column in tree.find_all(exp.ColumnDef)}
    kinds = {name: kinds[name] for name in (column.name for column in tree.this.expressions)}
    rows = [row for file in table["files"] for row in file]
    assert all(row.keys() == kinds.keys() for row in rows)
    schema = {name: kind.sql("spark") for name, kind in kinds.items()}
    return schema, [{name: typed(row[name], kind) for name, kind in kinds.items()} for row in rows]


def typed(value, kind: exp.DataType):
    """A value of the file as a value of the type."""
    if value is None:
        return None
    match kind.this.name:
        case "DECIMAL":
            return Decimal(value)
        case "TIMESTAMP" | "TIMESTAMPTZ" | "TIMESTAMPNTZ":
            return datetime.datetime.fromisoformat(value)
        case "MAP":
            key, item = kind.expressions
            return Map((typed(k, key), typed(v, item)) for k, v in value)
        case "STRUCT":
            return {field.name: typed(value[field.name], field.args["kind"]) for field in kind.expressions}
        case "ARRAY":
            return [typed(element, kind.expressions[0]) for element in value]
        case "DATE":
            assert type(value) is datetime.date
    return value


def like(value, actual):
    """An expected value, which has no schema, as a value of the actual one's type."""
    match actual:
        case Decimal() if value is not None:
            return Decimal(value)
        case datetime.datetime() if value is not None:
            return datetime.datetime.fromisoformat(value)
        case Map() if value is not None:
            return Map((k, v) for k, v in value)
    return value


def is_expected(actual: RefRow, values: dict, backward: dict, peers: dict) -> bool:
    wanted = {name: like(values[name], actual.values[name]) for name in actual.values if name in values}
    return (
        values.keys() == actual.values.keys()
        and canonical(wanted) == canonical(actual.values)
        and backward == {name: sorted(rids) for name, rids in actual.lineage.items()}
        and peers == {name: sorted(rids) for name, rids in actual.peers.items()}
    )


def alternatives(expected: dict) -> list[dict]:
    """What may come out: one result, or several where ties leave it open."""
    return expected.get("either") or [expected]


def check(rows: list[RefRow], expected: dict, ordered: bool) -> None:
    left = list(rows)
    assert expected["backward"].keys() == set(range(len(expected["rows"]))), "backward says nothing of a row"
    for i, values in enumerate(expected["rows"]):
        peers = expected.get("peers", {}).get(i, {})
        candidates = left[:1] if ordered else left
        found = [row for row in candidates if is_expected(row, values, expected["backward"][i], peers)]
        assert found, f"row {i} is not among {candidates}"
        left = [row for row in left if row is not found[0]]
    assert not left, "more rows than expected"


def check_ties(tables: dict, schemas: dict, steps: list[dict], name: str, expected: list[dict]) -> None:
    """However the windows find their rows, the result is one of those expected; and each of these comes out."""
    found = set()
    for order in permutations(range(max(map(len, tables.values())))):
        result = evaluate(tables, schemas, steps, arranged=lambda rows, order=order: [rows[i] for i in order])
        matching = [i for i, each in enumerate(expected) if is_result(result[name], each)]
        assert len(matching) == 1, f"matches {len(matching)} of the results: {result[name]}"
        found.add(matching[0])
    assert found == set(range(len(expected)))


def is_result(rows: list[RefRow], expected: dict) -> bool:
    try:
        check(rows, expected, ordered=False)
    except AssertionError:
        return False
    return True


# A case whose expressions the oracle does not know says so; it is judged by its expectations alone, in test_cases.
KNOWN = [path for path in sorted(CASES.glob("*/*.yml")) if load(path).get("oracle") is not False]


@pytest.mark.parametrize("path", KNOWN, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path):
    case = load(path)
    assert case.keys() - OPTIONAL == {"title", "tables", "steps", "expect"}
    schemas, tables = {}, {}
    for name, table in case["tables"].items():
        schemas[name], tables[name] = typed_table(table)
    result = evaluate(tables, schemas, case["steps"])
    outputs = case.get("outputs", [case["steps"][-1]["name"]])
    expectations = case["expect"].get("outputs") or {outputs[0]: case["expect"]}
    assert expectations.keys() == set(outputs)
    for name, expected in expectations.items():
        assert not result.ambiguous[name], "an output that reads a name both sides carry"
        assert (name in result.nondeterministic) == ("either" in expected)
        assert not case.get("ordered") or name in result.ordered
        if "either" in expected:
            check_ties(tables, schemas, case["steps"], name, expected["either"])
        else:
            check(result[name], expected, case.get("ordered", False))
        for row in result[name]:
            assert row.absence <= result.absence[name]
        if "absence" in expected:
            assert result.absence[name] == set(expected["absence"])


def test_every_operator_has_cases():
    folders = {path.name for path in CASES.iterdir() if path.is_dir()}
    assert folders >= {*STEP_TYPES, "dag"}
    assert all(any((CASES / op).glob("*.yml")) for op in STEP_TYPES)
