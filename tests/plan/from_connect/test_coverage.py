"""Every type of the installed PySpark's protocol is decided, and nothing is decided that it does not have."""

import pytest

from lineage_service.plan.from_connect import coverage
from lineage_service.plan.from_connect.relation_compiler import COMPILED

proto = pytest.importorskip("pyspark.sql.connect.proto")


def kinds(message, oneof):
    return {field.name for field in message.DESCRIPTOR.oneofs_by_name[oneof].fields}


@pytest.mark.parametrize(
    ("table", "message", "oneof"),
    [
        ("RELATIONS", proto.Relation, "rel_type"),
        ("EXPRESSIONS", proto.Expression, "expr_type"),
        ("COMMANDS", proto.Command, "command_type"),
        ("CATALOG", proto.Catalog, "cat_type"),
        ("ANALYSES", proto.AnalyzePlanRequest, "analyze"),
    ],
)
def test_every_type_is_decided(table, message, oneof):
    decided = set(getattr(coverage, table))
    assert decided - kinds(message, oneof) == set(), "the installed PySpark does not have these"
    assert kinds(message, oneof) - decided == set(), "decide these in plan/from_connect/coverage.py"


def test_what_is_said_to_be_traced_is_compiled():
    done = {kind for kind, each in coverage.RELATIONS.items() if each.outcome in ("traced", "transparent")}
    assert done == set(COMPILED) - {"source_reference"}


def test_what_is_untraced_has_a_reason():
    tables = (coverage.RELATIONS, coverage.EXPRESSIONS, coverage.COMMANDS, coverage.CATALOG, coverage.ANALYSES)
    assert coverage.RELATIONS["transpose"].outcome == "untraced"
    assert all(each.reason for table in tables for each in table.values() if each.outcome == "untraced")
