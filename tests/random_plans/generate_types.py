"""Types, literals and names for the random workflows of generate.py."""

import re

ARRAY, STRUCT = "ARRAY<BIGINT>", "STRUCT<a: INT, b: STRING>"
TYPES = ["BIGINT"] * 4 + ["INT"] * 3 + ["STRING"] * 4 + ["DOUBLE"] * 3 + ["BOOLEAN", "DATE", ARRAY, STRUCT]
FAMILY = {"INT": "integer", "BIGINT": "integer"}
SCALARS = {"integer", "STRING", "DOUBLE", "BOOLEAN", "DATE"}
LITERALS = {
    "integer": ["0", "1", "2", "3"],
    "STRING": ["'a'", "'b'", "''"],
    "DOUBLE": ["0.0D", "0.5D", "1.25D", "double('NaN')"],
    "BOOLEAN": ["true", "false"],
    "DATE": ["DATE '2020-01-01'", "DATE '2020-02-29'"],
}
NESTED_LITERALS = {ARRAY: ["array(1L, 2L)"], STRUCT: ["named_struct('a', 1, 'b', 'x')"]}
RESULTS = {  # what a function gives, where that is not its argument's type
    "sum": {"INT": "BIGINT"},
    "year": {"DATE": "INT"},
    "month": {"DATE": "INT"},
    "length": {"STRING": "INT"},
    "size": {ARRAY: "INT"},
    "if": {"BOOLEAN": "INT"},
    "collect_list": {"BIGINT": ARRAY},
}


def family(kind: str) -> str:
    return FAMILY.get(kind, kind)


def quoted(name: str) -> str:
    is_plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) and name not in ("group", "order", "count")
    return name if is_plain else f"`{name}`"


def type_of(expression: str, columns: dict[str, str]) -> str:
    """The type of an expression of those made here: each reads one column, or none."""
    if expression.startswith("count("):
        return "BIGINT"
    if re.match(r"(row_number|rank|dense_rank|ntile)\(", expression):
        return "INT"
    if cast := re.fullmatch(r"cast\(.* as (\w+)\)", expression):
        return cast[1].upper()
    literals = [(family_name, texts) for family_name, texts in (LITERALS | NESTED_LITERALS).items()]
    for kind, texts in literals:
        if expression in texts:
            return "INT" if kind == "integer" else kind
    found = [name for name in columns if re.search(rf"(?<![\w`.]){re.escape(quoted(name))}(?![\w`])", expression)]
    kind = columns[max(found, key=len)]
    if kind == STRUCT and expression.endswith((".a", ".b")):
        return "INT" if expression.endswith(".a") else "STRING"
    function = expression.partition("(")[0]
    return RESULTS.get(function, {}).get(kind, kind)
