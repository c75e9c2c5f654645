"""dbt's tests as checks: those that a check expresses exactly. All others are listed, with the reason."""

from __future__ import annotations

import re

from lineage_service.importers.dbt.manifest import Manifest, Node, mapping, text
from lineage_service.importers.foreign_project import Check, Omission
from lineage_service.importers.spark_spelling import in_spark_spelling, quoted
from lineage_service.spec.spark_literals import spark_literal
from lineage_service.spec.sql_parsing import tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BUILT_IN = ("not_null", "unique", "accepted_values")
_NEVER_MET = "!= 0"  # dbt's default: the test fails if one row fails


def imported_checks(
    manifest: Manifest, models: set[str], dialect: str | None
) -> tuple[dict[str, list[Check]], list[Omission]]:
    """Checks by the id of the model that they are about, and the tests that do not become checks."""
    checks: dict[str, list[Check]] = {}
    omissions = []
    for key, node in manifest.nodes("test"):
        name = text(node, "name") or key
        model = _tested_node(node)
        reason = _reason_to_omit(node, model, models, manifest)
        found = _check(node, dialect) if reason is None else reason
        if isinstance(found, Check):
            if found not in checks.setdefault(model, []):
                checks[model].append(found)
        else:
            omissions.append(Omission("test", name, found))
    return checks, omissions


def _tested_node(node: Node) -> str:
    attached = text(node, "attached_node")
    read = mapping(node, "depends_on").get("nodes")
    return attached or (str(read[0]) if isinstance(read, list) and len(read) == 1 else "")


def _reason_to_omit(node: Node, model: str, models: set[str], manifest: Manifest) -> str | None:
    metadata = mapping(node, "test_metadata")
    kind = text(metadata, "name")
    if not metadata:
        return "a check is a predicate on single rows, and this test is a query"
    if kind == "relationships" and not text(metadata, "namespace"):
        return "it compares rows with those of another model, and a check is a predicate on single rows"
    if text(metadata, "namespace") or kind not in _BUILT_IN:
        return "only not_null, unique and accepted_values become checks"
    macros = mapping(node, "depends_on").get("macros")
    macros = [str(each) for each in macros] if isinstance(macros, list) else []
    own = f".test_{kind}"
    if any(each.endswith(own) and each != f"macro.dbt{own}" for each in macros):
        return f"the project has a test {kind} of its own"
    if model not in models:
        tested = mapping(manifest.content, "nodes").get(model)
        kind_of = text(tested, "resource_type") if isinstance(tested, dict) else "source"
        kind_of = "model that is not a step" if kind_of == "model" else kind_of or "source"
        return f"it tests a {kind_of}, and checks are about steps"
    config = mapping(node, "config")
    if text(config, "limit") or text(config, "fail_calc") not in ("", "count(*)"):
        return "its limit or fail_calc has no equivalent"
    threshold = "warn_if" if _severity(node) == "warn" else "error_if"
    if text(config, threshold).replace(" ", "") not in ("", "!=0", ">0"):
        return f"its {threshold} has no equivalent: one row is enough for a check to fail"
    return None


def _severity(node: Node) -> str:
    return "warn" if text(node, "config", "severity").lower() == "warn" else "error"


def _check(node: Node, dialect: str | None) -> Check | str:
    """The check, or why there is none."""
    metadata = mapping(node, "test_metadata")
    kind, arguments = text(metadata, "name"), mapping(metadata, "kwargs")
    column = _column(text(arguments, "column_name") or text(node, "column_name"), dialect)
    if column is None:
        return "it tests an expression, and checks are about columns"
    where = text(node, "config", "where") or text(arguments, "where")
    if where:
        where = in_spark_spelling(where, dialect)
        if not _is_predicate(where):
            return "its where is not a plain predicate"
    severity = _severity(node)
    shown = column if _PLAIN.fullmatch(column) else quoted(column)
    match kind:
        case "not_null" if not where:
            return Check("not_null", column, severity)
        case "not_null":
            return Check("where", f"({where}) IS NOT TRUE OR {shown} IS NOT NULL", severity)
        case "unique" if not where:
            return Check("unique", column, severity)
        case "unique":
            return "a check of unique values is about all rows, and this test has a where"
        case "accepted_values":
            values = _values(arguments)
            if values is None:
                return "its values are not plain texts or numbers"
            accepted = f"{shown} IN ({', '.join(values)})"
            return Check("where", f"({where}) IS NOT TRUE OR {accepted}" if where else accepted, severity)
        case _:
            raise AssertionError(kind)


def _column(written: str, dialect: str | None) -> str | None:
    """The column that a test names; None for an expression."""
    written = written.strip()
    if _PLAIN.fullmatch(written):
        return written
    try:
        tokens = tokenize_query(in_spark_spelling(written, dialect))
    except SqlSyntaxError:
        return None
    only = tokens[0] if len(tokens) == 1 else None
    return only.text if only is not None and only.token_type.name == "IDENTIFIER" else None


def _values(arguments: Node) -> list[str] | None:
    """The values as dbt writes them: in quotes, unless the test says otherwise."""
    values, in_quotes = arguments.get("values"), arguments.get("quote", True)
    if not isinstance(values, list) or not values:
        return None
    if not all(isinstance(each, str | int | float) and not isinstance(each, bool) for each in values):
        return None
    written = [text({"it": each}, "it") for each in values]
    if in_quotes is True:
        return [spark_literal(each) for each in written]
    return written if all(re.fullmatch(r"-?[0-9]+(\.[0-9]+)?|'[^'\\]*'", each) for each in written) else None


def _is_predicate(where: str) -> bool:
    try:
        tokens = tokenize_query(where)
    except SqlSyntaxError:
        return False
    words = {token.text.upper() for token in tokens if token.token_type.name not in ("STRING", "IDENTIFIER")}
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            return False
    comments = any(token.comments for token in tokens)
    return bool(tokens) and depth == 0 and not comments and not words & {"SELECT", "{", "{%", "{{", ";"}
