"""The aggregate and window functions that a measure calls.

They are found in the tokens of its text, and OVER clauses are inserted there. The text is never generated, so that its
meaning to Spark stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan import functions
from lineage_service.plan.expressions import Expression, closing_parenthesis, is_like_quantifier, opens_parenthesis

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


@dataclass(frozen=True, slots=True)
class WindowCall:
    """An aggregate or window function in a measure: its arguments as written (without DISTINCT), and whether it ignores
    nulls. has_order: whether it has a WITHIN GROUP.
    """

    name: str
    arguments: tuple[str, ...]
    ignores_nulls: bool
    is_distinct: bool = False
    has_order: bool = False

    @property
    def takes_a_frame(self) -> bool:
        """Whether the step's `frame` applies to it. Ranking and offset functions have frames of their own."""
        return self.name in functions.AGGREGATES or self.name == "nth_value"


def window_calls(expression: Expression) -> list[WindowCall]:
    """The outermost aggregate and window functions of a measure, in order of appearance."""
    return [call for call, _ in _window_calls(expression)]


def add_over_clauses(expression: Expression, window: str, frame: str = "") -> str:
    """The text with ` OVER (window)` after each outermost aggregate or window function, with the frame if the function
    accepts one.
    """
    text = expression.text
    pieces, end = [], 0
    for call, last in _window_calls(expression):
        spec = f"{window} {frame}".strip() if frame and call.takes_a_frame else window
        pieces += [text[end : last.end + 1], f" OVER ({spec})"]
        end = last.end + 1
    return "".join([*pieces, text[end:]])


def _window_calls(expression: Expression) -> list[tuple[WindowCall, Token]]:
    """The calls, each with its last token."""
    tokens, text = expression.tokens, expression.text
    wanted = functions.AGGREGATES | functions.WINDOW_ONLY
    found, index = [], 0
    while index < len(tokens) - 1:
        name = tokens[index].text.lower()
        if name in wanted and opens_parenthesis(tokens[index + 1]) and not is_like_quantifier(tokens, index):
            closing, last = closing_parenthesis(tokens, index + 1), _end_of_call(tokens, index + 1)
            is_distinct = closing > index + 3 and tokens[index + 2].token_type.name == "DISTINCT"
            arguments = _arguments(text, tokens[index + 2 + is_distinct : closing])
            behind = [token.text.lower() for token in tokens[closing + 1 : last + 1]]
            # lag(x, 1, NULL, true) is lag(x, 1, NULL) IGNORE NULLS.
            flag = name in ("lag", "lead") and len(arguments) > 3 and arguments[3].lower() == "true"
            ignores = "ignore" in behind or flag
            found.append((WindowCall(name, arguments, ignores, is_distinct, "within" in behind), tokens[last]))
            index = last
        index += 1
    return found


def _arguments(text: str, tokens: tuple[Token, ...]) -> tuple[str, ...]:
    """The texts between the commas of a call."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.token_type.name == "COMMA":
            parts.append([])
        else:
            parts[-1].append(token)
    return tuple(text[part[0].start : part[-1].end + 1] for part in parts if part)


def _end_of_call(tokens: tuple[Token, ...], opening: int) -> int:
    """The index of the last token of a call: its `)`, or that of a FILTER, WITHIN GROUP or NULLS clause after it."""
    last = closing_parenthesis(tokens, opening)
    while last + 2 < len(tokens):
        words = [token.text.lower() for token in tokens[last + 1 : last + 4]]
        if words[0] in ("ignore", "respect") and words[1] == "nulls":
            last += 2
        elif words[0] == "filter" and opens_parenthesis(tokens[last + 2]):
            last = closing_parenthesis(tokens, last + 2)
        elif words[0] == "within" and words[1] == "group" and opens_parenthesis(tokens[last + 3]):
            last = closing_parenthesis(tokens, last + 3)
        else:
            break
    return last
