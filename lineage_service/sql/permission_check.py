"""Decides what may run. The check uses DuckDB's own parse tree, so that no two parsers can disagree."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.query_engine import reword_duckdb_error
from lineage_service.sql.allowed_functions import AGGREGATES, OPERATORS, SCALAR, TABLE, WINDOW
from lineage_service.sql.question_parsing import FUNCTIONS

SERIALIZE = "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true, skip_default := true)"
CALLABLE = OPERATORS | SCALAR | AGGREGATES | WINDOW
_EXPRESSIONS = frozenset(
    """FUNCTION WINDOW CAST TYPE CASE BETWEEN OPERATOR COLUMN_REF CONSTANT SUBQUERY LAMBDA LAMBDA_REF COLLATE STAR
    CONJUNCTION COMPARISON POSITIONAL_REFERENCE""".split()  # noqa: SIM905
)
_NODES = frozenset(
    """SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE CTE_NODE ORDER_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER
    DISTINCT_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING BASE_TABLE SUBQUERY JOIN TABLE_FUNCTION EXPRESSION_LIST EMPTY
    PIVOT""".split()  # noqa: SIM905
)
_WORDS = {"PARAMETER": "a parameter", "DEFAULT": "DEFAULT", "SHOW_REF": "SHOW and DESCRIBE"}


def check_allowed(serialized: str, ours: Collection[str], around: Collection[str] = ()) -> None:
    """Raises QuestionError unless the SQL is one SELECT that reads only the relations `ours`, its own common tables and
    those `around` it, and calls only allowed functions.
    """
    body = json.loads(serialized)
    if body.get("error"):
        raise reword_duckdb_error(str(body.get("error_message") or "no SQL"), "cannot read the query")
    if len(body["statements"]) != 1:
        raise QuestionError(f"one statement at a time: the query has {len(body['statements'])}")
    scope = frozenset(name.lower() for name in (*ours, *around))
    for node, known in _nodes(body, scope):
        _check(node, ours, known)


def _check(node: dict[str, Any], ours: Collection[str], known: Collection[str]) -> None:
    kind = node.get("class")
    if kind is not None:
        if kind not in _EXPRESSIONS:
            raise QuestionError(f"{_WORDS.get(kind, kind.lower())} is not allowed in a query")
        if kind in ("FUNCTION", "WINDOW"):
            _check_function(node)
        if kind == "COLUMN_REF" and len(node["column_names"]) == 1 and node["column_names"][0] in ours:
            raise QuestionError("a lineage function gives rows: it stands behind FROM or JOIN")
        return
    name = node.get("type")
    if isinstance(name, str) and name not in _NODES and name.isupper():
        raise QuestionError(f"{_WORDS.get(name, name.lower().replace('_', ' '))} is not allowed in a query")
    if name == "BASE_TABLE" and (
        node.get("schema_name") or node.get("catalog_name") or node["table_name"].lower() not in known
    ):
        raise QuestionError(f"'{node['table_name']}' is no dataset of the home and no table of the query")


def _check_function(node: dict[str, Any]) -> None:
    name = str(node["function_name"]).lower()
    if node.get("schema") or node.get("catalog"):
        raise QuestionError(f"function '{name}' is called without a schema before it")
    if node.get("in_from"):
        if name not in TABLE:
            names = [*FUNCTIONS, *sorted(TABLE)]
            raise QuestionError(
                f"'{name}(…)' is not allowed behind FROM; allowed: {join_names(names)}", hint=did_you_mean(name, names)
            )
    elif name not in CALLABLE and name not in ("row", "list_value", "struct_pack"):
        raise QuestionError(f"function '{name}' is not allowed in a query", hint=did_you_mean(name, CALLABLE))


def _nodes(body: Any, scope: frozenset[str]) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Every node of the tree, with the tables it may name. Table functions are marked.

    A common table is visible to later common tables and to the query. Within itself it is visible only in the recursive
    part.
    """
    stack: list[tuple[Any, frozenset[str], bool]] = [(body, scope, False)]
    while stack:
        at, known, behind_from = stack.pop()
        if isinstance(at, list):
            stack += [(value, known, False) for value in at]
        if not isinstance(at, dict):
            continue
        rest = {key: value for key, value in at.items() if key != "cte_map"}
        for entry in (at.get("cte_map") or {}).get("map", []):
            stack.append((entry["value"], known, False))
            known = known | {str(entry["key"]).lower()}
        if "class" in at or isinstance(at.get("type"), str):
            yield ({**at, "in_from": True} if behind_from else at), known
        if at.get("type") == "RECURSIVE_CTE_NODE":
            added = known | {str(at["cte_name"]).lower()}
            stack += [(value, added if key == "right" else known, False) for key, value in rest.items()]
            continue
        is_table = at.get("type") == "TABLE_FUNCTION" and "class" not in at
        stack += [(value, known, is_table and key == "function") for key, value in rest.items()]
