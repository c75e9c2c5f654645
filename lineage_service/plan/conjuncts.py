"""Divides a join's `on` into conjuncts that compare the two sides, and conjuncts over one side.

If the `on` of a semi join consists of `left expression = right expression` and one-sided conditions, the right rows are
stored once per key. Otherwise pairs are stored, which is always correct. So the result is None in case of doubt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lineage_service.plan.expressions import BARE_FUNCTIONS, ColumnRef, Expression, ExpressionError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Side = Literal["left", "right"]

# At the top level of a conjunct these bind looser than, or compete with, `=`: such a conjunct is left whole.
_COMPETING = frozenset({"or", "not", "!", "between", "in", "is", "like", "ilike", "rlike", "regexp", "<", ">", "<=",
                        ">=", "<>", "!=", "==", "<=>", "case", "->", "xor", "exists", "collate"})  # fmt: skip


@dataclass(frozen=True)
class EquiCondition:
    """`on` as equal keys and one-sided conditions, all of which must hold."""

    keys: tuple[tuple[str, str], ...]
    left_only: tuple[str, ...]
    right_only: tuple[str, ...]


def parse_equi_condition(on: Expression, side_of: Callable[[ColumnRef], Side]) -> EquiCondition | None:
    """The parts of `on`; None if it is no such conjunction."""
    if not on.repeatable or on.words & BARE_FUNCTIONS:  # a word that may be a column, of either side, or a function
        return None
    keys: list[tuple[str, str]] = []
    alone: dict[Side, list[str]] = {"left": [], "right": []}
    for tokens in _conjuncts(on.tokens):
        text = on.text[tokens[0].start : tokens[-1].end + 1]
        sides = _sides(text, side_of)
        if sides is None or not sides:
            return None
        if len(sides) == 1:
            alone[next(iter(sides))].append(text)
            continue
        pair = _equality(on.text, tokens, side_of)
        if pair is None:
            return None
        keys.append(pair)
    return EquiCondition(tuple(keys), tuple(alone["left"]), tuple(alone["right"])) if keys else None


def plain_name(text: str) -> str | None:
    """The column that one side of an equality consists of, without its side; None for any other expression."""
    expression = Expression(text)
    refs = expression.columns
    parts = refs[0].parts if len(refs) == 1 else ()
    if len(parts) == 2 and parts[0] in ("left", "right"):
        parts = parts[1:]
    words = [token.token_type.name for token in expression.tokens]
    plain = len(words) == 1 or (len(words) == 3 and words[1] == "DOT")
    return parts[0] if len(parts) == 1 and plain else None


def _conjuncts(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """The operands of top-level ANDs; a single one if an OR, a BETWEEN or a CASE could own an AND."""
    top = _top_level(tokens)
    words = {tokens[index].text.lower() for index in top}
    if words & {"or", "between", "case", "->", "xor"}:
        return [tokens]
    parts, start = [], 0
    for index in top:
        if tokens[index].text.lower() == "and" and tokens[index].token_type.name == "AND":
            parts.append(tokens[start:index])
            start = index + 1
    parts.append(tokens[start:])
    return [part for part in parts if part]


def conjuncts_of(predicate: Expression) -> tuple[str, ...]:
    """The conditions that must all hold, as written; the predicate itself if it is no conjunction.

    Unlike `_conjuncts`, this distinguishes an AND that belongs to a BETWEEN or a CASE from one that joins two
    conditions.
    """
    return tuple(_conditions(predicate.text, predicate.tokens))


def _conditions(text: str, tokens: tuple[Token, ...]) -> list[str]:
    whole = [text[tokens[0].start : tokens[-1].end + 1]]
    top = _top_level(tokens)
    words = {tokens[index].text.lower() for index in top}
    if words & {"or", "->", "xor"}:
        return whole
    parts, start, open_betweens, open_cases = [], 0, 0, 0
    for index in top:
        word = tokens[index].text.lower()
        open_cases += (word == "case") - (word == "end")
        open_betweens += word == "between" and not open_cases
        if word != "and" or open_cases:
            continue
        if open_betweens:
            open_betweens -= 1
            continue
        parts.append(tokens[start:index])
        start = index + 1
    parts.append(tokens[start:])
    if open_cases or open_betweens or not all(parts):
        return whole
    if len(parts) == 1 and not _in_parentheses(tokens):
        return whole
    if len(parts) == 1:
        inside = _conditions(text, tokens[1:-1])
        return inside if len(inside) > 1 else whole
    return [condition for part in parts for condition in _conditions(text, part)]


def _in_parentheses(tokens: tuple[Token, ...]) -> bool:
    """Whether the first token opens a parenthesis that the last one closes."""
    if len(tokens) < 3 or tokens[0].token_type.name != "L_PAREN" or tokens[-1].token_type.name != "R_PAREN":
        return False
    return _top_level(tokens) == [0, len(tokens) - 1]


def _equality(text: str, tokens: tuple[Token, ...], side_of: Callable[[ColumnRef], Side]) -> tuple[str, str] | None:
    top = _top_level(tokens)
    if any(tokens[index].text.lower() in _COMPETING for index in top):
        return None
    equals = [index for index in top if tokens[index].token_type.name == "EQ"]
    if len(equals) != 1:
        return None
    first, second = tokens[: equals[0]], tokens[equals[0] + 1 :]
    if not first or not second:
        return None
    texts = [text[part[0].start : part[-1].end + 1] for part in (first, second)]
    sides = [_sides(part, side_of) for part in texts]
    if sides == [{"left"}, {"right"}]:
        return texts[0], texts[1]
    if sides == [{"right"}, {"left"}]:
        return texts[1], texts[0]
    return None


def _sides(text: str, side_of: Callable[[ColumnRef], Side]) -> set[Side] | None:
    try:
        return {side_of(ref) for ref in Expression(text).columns}
    except ExpressionError:
        return None


def _top_level(tokens: tuple[Token, ...]) -> list[int]:
    depth, top = 0, []
    for index, token in enumerate(tokens):
        kind = token.token_type.name
        depth -= kind in ("R_PAREN", "R_BRACKET")
        if depth == 0 and kind not in ("STRING", "IDENTIFIER"):
            top.append(index)
        depth += kind in ("L_PAREN", "L_BRACKET")
    return top
