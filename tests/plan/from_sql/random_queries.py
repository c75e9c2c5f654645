"""A query on two ways without Spark: its plan, evaluated, against its tree, interpreted. Rows, lineage and absence."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from lineage_service.capture.inferred_predicates import with_inferred_predicates
from lineage_service.plan.build import Plan
from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.nodes import Node, PlanError, Source, keeps_order
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.sql_text import whole_file
from tests.oracle.plan_reference import evaluate_plan
from tests.oracle.reference import Ambiguous, RefRow
from tests.oracle.reference_expressions import Raised
from tests.oracle.reference_values import Unsupported, canonical
from tests.oracle.sql_reference import SqlAnswer, SqlRow, SqlTable


@dataclass(frozen=True)
class Verdict:
    """kind: equal, wrong, refused (by the compiler), or beyond (the evaluation of plans); and why.

    raised: the plan ends with an error where the tree gives rows. So may Spark: it computes a subquery inside another
    for all rows, and the tree for those that are asked for.
    inferred: whether the plan was also evaluated with inferred predicates
    """

    kind: str
    reason: str = ""
    inferred: bool = False


def sources_of(tables: Mapping[str, SqlTable]) -> dict[str, Source]:
    return {
        name: Source(name, name, None, Schema(tuple(Column(column, kind) for column, kind in table.schema.items())))
        for name, table in tables.items()
    }


def judge_query(text: str, tables: Mapping[str, SqlTable], answer: SqlAnswer) -> Verdict:
    """Whether the compiled plan gives the answer."""
    try:
        node = compile_sql(whole_file(text, "query.sql"), "out", None, sources_of(tables))
    except PlanError as error:
        return Verdict("refused", without_names(error.problems[0].message))
    try:
        rows = evaluate_plan(node, tables)
    except (Unsupported, Ambiguous) as error:
        return Verdict("beyond", without_names(str(error)))
    except Raised as error:
        return Verdict("raised", without_names(str(error)))
    found = difference(answer, list(node.schema.names), rows, ordered=keeps_order(node))
    if found is None and (inferred := with_all_predicates(node, tables)) is not node:
        found = difference(answer, list(node.schema.names), evaluate_plan(inferred, tables), ordered=keeps_order(node))
        return Verdict("wrong", f"with inferred predicates: {found}") if found else Verdict("equal", inferred=True)
    return Verdict("wrong", found) if found else Verdict("equal")


def with_all_predicates(node: Node, tables: Mapping[str, SqlTable]) -> Node:
    """The plan with every semi join that can be inferred."""
    plan = Plan("random", sources_of(tables), {node.id: node}, {"out": node.id}, ())
    return with_inferred_predicates(plan, lambda found: found).steps[node.id]


def difference(answer: SqlAnswer, columns: list[str], rows: list[RefRow], *, ordered: bool) -> str | None:
    """What is unlike: names, rows with what is behind them as bags, and the order where there is one."""
    if answer.columns != columns:
        return f"columns {columns} instead of {answer.columns}"
    theirs, ours = Counter(map(fingerprint, answer.rows)), Counter(map(fingerprint, rows))
    if theirs != ours:
        return f"only the tree gives {dict(theirs - ours)}, only the plan gives {dict(ours - theirs)}"
    if answer.ordered and not ordered:
        return "the plan has no order"
    if answer.ordered and [canonical(list(row.values)) for row in answer.rows] != [
        canonical(list(row.values.values())) for row in rows
    ]:
        return "another order"
    return None


def fingerprint(row: SqlRow | RefRow) -> tuple:
    """Values, own and peer rows, and what influences by absence."""
    values = list(row.values.values()) if isinstance(row, RefRow) else list(row.values)
    return canonical(values), pairs(row.own), pairs(row.peers), tuple(sorted(row.absence))


def pairs(rids: Mapping[str, frozenset[int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((table, rid) for table, each in rids.items() for rid in each))


def without_names(message: str) -> str:
    """A message without what differs from query to query, to count it."""
    return re.sub(r"'[^']*'|\b\w+__\w+\b|\d+", "…", message)[:110]
