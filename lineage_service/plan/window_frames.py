"""The `frame` of a window step: ROWS or RANGE with two bounds, as in SQL.

Spark evaluates the text unchanged. It is parsed here to determine which rows a measure reads, and to refuse what Spark
would refuse after its start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lineage_service.errors import Position
from lineage_service.plan.expressions import Expression, ExpressionError, shorten_text, tokens_of

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Kind = Literal["start", "before", "here", "after", "end"]
_WRITTEN = "write it as in SQL: `ROWS BETWEEN 2 PRECEDING AND CURRENT ROW`; the unit is ROWS or RANGE"
_SPECIAL: dict[tuple[str, ...], Kind] = {
    ("unbounded", "preceding"): "start",
    ("current", "row"): "here",
    ("unbounded", "following"): "end",
}


@dataclass(frozen=True, slots=True)
class FrameBound:
    """One bound of a frame: the partition's start or end, the row itself, or an offset before or after it."""

    kind: Kind
    offset: str | None = None

    @property
    def number(self) -> int | None:
        """The offset if it is written as an integer; negative before the row."""
        if self.offset is None or not self.offset.isdecimal():
            return None
        return -int(self.offset) if self.kind == "before" else int(self.offset)


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """A frame clause. `text` is passed to Spark."""

    text: str
    rows: bool
    lower: FrameBound
    upper: FrameBound
    position: Position | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole partition for each row."""
        return self.lower.kind == "start" and self.upper.kind == "end"

    @property
    def by_position(self) -> bool:
        """Whether rows that are equal in the order may have different frames."""
        return self.rows and not self.whole

    @property
    def has_offset(self) -> bool:
        return self.lower.offset is not None or self.upper.offset is not None


def parse_frame(text: str, position: Position | None) -> WindowFrame:
    """The frame of a text. Raises ExpressionError if it is no frame, or one that Spark refuses for every order."""
    tokens = tokens_of(text)
    words = [token.text.lower() for token in tokens]
    if not words or words[0] not in ("rows", "range"):
        hint = "Spark has ROWS and RANGE" if words[:1] == ["groups"] else _WRITTEN
        raise ExpressionError(f"no frame: '{shorten_text(text)}'", hint)
    if words[1:2] == ["between"]:
        middle = _index_of_and(tokens)
        if middle is None:
            raise ExpressionError(f"a frame has two bounds: '{shorten_text(text)}'", _WRITTEN)
        lower, upper = _parse_bound(text, tokens[2:middle]), _parse_bound(text, tokens[middle + 1 :])
    else:
        lower, upper = _parse_bound(text, tokens[1:]), FrameBound("here")
    if lower.kind == "end":
        raise ExpressionError("a frame cannot begin at UNBOUNDED FOLLOWING", _WRITTEN)
    if upper.kind == "start":
        raise ExpressionError("a frame cannot end at UNBOUNDED PRECEDING", _WRITTEN)
    numbers = lower.number, upper.number
    if numbers[0] is not None and numbers[1] is not None and numbers[0] > numbers[1]:
        raise ExpressionError(f"the frame ends before it begins: '{shorten_text(text)}'", "put the earlier bound first")
    unit = words[0] == "rows"
    for bound in (lower, upper) if unit else ():
        if bound.offset is not None and _is_no_count(bound.offset):
            raise ExpressionError(f"ROWS counts rows, and '{bound.offset}' is no whole number", _WRITTEN)
    # A comment behind it would hide what follows in the text that Spark gets.
    return WindowFrame(_text_of_tokens(text, tokens), unit, lower, upper, position)


def _index_of_and(tokens: tuple[Token, ...]) -> int | None:
    """The AND between the bounds."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.token_type.name == "AND":
            return index
    return None


def _parse_bound(text: str, tokens: tuple[Token, ...]) -> FrameBound:
    words = tuple(token.text.lower() for token in tokens)
    if words in _SPECIAL:
        return FrameBound(_SPECIAL[words])
    if len(words) < 2 or words[-1] not in ("preceding", "following"):
        raise ExpressionError(
            f"no bound of a frame: '{shorten_text(_text_of_tokens(text, tokens)) if tokens else ''}'",
            "bounds: UNBOUNDED PRECEDING, n PRECEDING, CURRENT ROW, n FOLLOWING, UNBOUNDED FOLLOWING",
        )
    offset = _text_of_tokens(text, tokens[:-1])
    expression = Expression(offset)
    if expression.columns or expression.has_aggregate or expression.needs_window or expression.has_over_clause:
        raise ExpressionError(f"a bound of a frame is a constant, and '{shorten_text(offset)}' is not")
    return FrameBound("before" if words[-1] == "preceding" else "after", offset)


def _text_of_tokens(text: str, tokens: tuple[Token, ...]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1]


def _is_no_count(offset: str) -> bool:
    """Whether an offset is certainly no INT. Computed offsets are left to Spark."""
    tokens = tokens_of(offset)
    kinds = [token.token_type.name for token in tokens]
    if kinds and kinds[0] in ("INTERVAL", "STRING", "NULL"):
        return True
    return kinds == ["NUMBER"] and not offset.isdecimal()
