"""What may run: decided on DuckDB's own reading of the SQL, so that no two parsers can disagree about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from lineage_service.consume.functions import AGGREGATES, OPERATORS, SCALAR, TABLE, WINDOW
from lineage_service.consume.reading import FUNCTIONS
from lineage_service.errors import QuestionError, did_you_mean, listed

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
    """QuestionError unless it is one SELECT over relations of `ours`, its own common tables and those `around` it, of
    allowed functions."""
    body = json.loads(serialized)
    if body.get("error"):
        message = str(body.get("error_message", "")).splitlines()[0]
        raise QuestionError(f"cannot read the query: {message}")
    if len(body["statements"]) != 1:
        raise QuestionError(f"one statement at a time: the query has {len(body['statements'])}")
    known = {name.lower() for name in (*ours, *around, *_common(body))}
    for node in _nodes(body):
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
                f"'{name}(…)' is not allowed behind FROM; allowed: {listed(names)}", hint=did_you_mean(name, names)
            )
    elif name not in CALLABLE and name not in ("row", "list_value", "struct_pack"):
        raise QuestionError(f"function '{name}' is not allowed in a query", hint=did_you_mean(name, CALLABLE))


def _nodes(body: Any, *, in_from: bool = False) -> Iterator[dict[str, Any]]:
    """Every object of the tree that is a node; functions that stand behind FROM are marked."""
    stack: list[tuple[Any, bool]] = [(body, in_from)]
    while stack:
        at, behind_from = stack.pop()
        if isinstance(at, dict):
            if "class" in at or isinstance(at.get("type"), str):
                yield {**at, "in_from": True} if behind_from else at
            is_table = at.get("type") == "TABLE_FUNCTION" and "class" not in at
            stack += [(value, is_table and key == "function") for key, value in at.items()]
        elif isinstance(at, list):
            stack += [(value, False) for value in at]


def _common(body: Any) -> set[str]:
    """The names of all common tables."""
    found: set[str] = set()
    stack = [body]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            for entry in at.get("cte_map", {}).get("map", []) if isinstance(at.get("cte_map"), dict) else []:
                found.add(str(entry["key"]))
            if "cte_name" in at:
                found.add(str(at["cte_name"]))
            stack += list(at.values())
        elif isinstance(at, list):
            stack += at
    return found
