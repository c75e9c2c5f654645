"""How Spark writes the type of a CAST in the name of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.spark_call_names import UnknownNameError
from lineage_service.spec.sql_parsing import SPAN

if TYPE_CHECKING:
    from sqlglot import exp


def cast_type_name(block: BlockState, node: exp.Expr) -> str:
    """The type as it is written, in capitals, where it is a plain one."""
    start, end = node.meta[SPAN]
    tokens = block.context.tokens_between(start, end)
    depth, behind = 0, None
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 1 and token.text.upper() == "AS":
            behind = index + 1
    words = [token.text.upper() for token in tokens[behind:-1]] if behind is not None else []
    operators = [index for index, token in enumerate(tokens) if token.token_type.name == "DCOLON"]
    if not words and operators:
        words = [token.text.upper() for token in tokens[operators[-1] + 1 :]]
    name = "".join(words)
    plain = {"INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
             "DEC": "DECIMAL", "NUMERIC": "DECIMAL"}  # fmt: skip
    first = plain.get(words[0], words[0]) if words else ""
    if first == "DECIMAL" and len(words) == 1:
        return "DECIMAL(10,0)"
    if first in ("VARCHAR", "CHAR") and len(words) == 4:
        return "STRING"
    if first == "DECIMAL" and len(words) in (4, 6):
        return first + "".join(words[1:]) if len(words) == 6 else f"DECIMAL({words[2]},0)"
    if len(words) == 1 and first in ("INT", "BIGINT", "SMALLINT", "TINYINT", "FLOAT", "DOUBLE", "STRING", "DATE",
                                     "TIMESTAMP", "TIMESTAMP_NTZ", "BOOLEAN", "BINARY"):  # fmt: skip
        return first
    raise UnknownNameError(name)
