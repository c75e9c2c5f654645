"""Types of the protocol as Spark SQL writes them."""

from __future__ import annotations

from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_connect.messages import Message, kind_of

_PLAIN = {
    "null": "VOID", "binary": "BINARY", "boolean": "BOOLEAN", "byte": "TINYINT", "short": "SMALLINT",
    "integer": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE",
    "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ", "calendar_interval": "INTERVAL",
    "variant": "VARIANT",
}  # fmt: skip
_YEAR_MONTH = ("YEAR", "MONTH")
_DAY_TIME = ("DAY", "HOUR", "MINUTE", "SECOND")


def type_text(type_: Message) -> str | None:
    """A DataType as in DDL; None where DDL has no word for it."""
    kind, inner = kind_of(type_)
    if kind in _PLAIN:
        return _PLAIN[kind]
    match kind:
        case "string":
            collation = inner.text("collation")
            return "STRING" if not collation or collation == "UTF8_BINARY" else f"STRING COLLATE {collation}"
        case "char" | "var_char":
            return f"{'CHAR' if kind == 'char' else 'VARCHAR'}({inner.number('length')})"
        case "decimal":
            precision = inner.number("precision") if "precision" in inner else 10
            return f"DECIMAL({precision},{inner.number('scale')})"
        case "year_month_interval":
            return _interval(inner, _YEAR_MONTH)
        case "day_time_interval":
            return _interval(inner, _DAY_TIME)
        case "time":
            return f"TIME({inner.number('precision') if 'precision' in inner else 6})"
        case "unparsed":
            return inner.text("data_type_string")
        case "array":
            element = _inner(inner, "element_type")
            return None if element is None else f"ARRAY<{element}>"
        case "map":
            key, value = _inner(inner, "key_type"), _inner(inner, "value_type")
            return None if key is None or value is None else f"MAP<{key}, {value}>"
        case "struct":
            return _struct(inner)
    return None


def _inner(type_: Message, name: str) -> str | None:
    inner = type_.message(name)
    return None if inner is None else type_text(inner)


def _interval(type_: Message, units: tuple[str, ...]) -> str:
    start = type_.number("start_field") if "start_field" in type_ else 0
    end = type_.number("end_field") if "end_field" in type_ else len(units) - 1
    return f"INTERVAL {units[start]}" + (f" TO {units[end]}" if end != start else "")


def _struct(type_: Message) -> str | None:
    fields = []
    for each in type_.messages("fields"):
        inner = _inner(each, "data_type")
        if inner is None:
            return None
        required = "" if each.flag("nullable") else " NOT NULL"
        fields.append(f"{quote_identifier(each.text('name'))}: {inner}{required}")
    return f"STRUCT<{', '.join(fields)}>"
