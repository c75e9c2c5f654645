"""Bound expressions as text of Spark SQL over the columns of the plan.

Where no text has the meaning of the message, the text is only shown, and the message is what Spark evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lineage_service.plan.expressions import quote_identifier, tokens_of
from lineage_service.plan.from_connect.bound_expressions import COLUMN, TEXT, as_column, without_aliases
from lineage_service.plan.from_connect.data_types import type_text
from lineage_service.plan.from_connect.literals import literal_kind, literal_text, quoted, string_text
from lineage_service.plan.from_connect.messages import Message, kind_of

OPERATORS = {
    "==": "=", "=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR",
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "&": "&", "|": "|", "^": "^", "!=": "!=", "<>": "<>",
}  # fmt: skip
_PREFIXES = {"not": "NOT ", "!": "NOT ", "negative": "- ", "-": "- ", "~": "~", "+": "+ "}
_LIKES = {"like": "LIKE", "rlike": "RLIKE", "ilike": "ILIKE"}
_ELEMENT = "zipped__element"


def expression_text(bound: Message) -> tuple[str, bool]:
    """The text, and whether Spark evaluates it as it evaluates the message."""
    writer = _Writer()
    text = writer.text(bound)
    return text, writer.is_exact


@dataclass(slots=True)
class _Writer:
    is_exact: bool = True

    def text(self, bound: Message) -> str:
        kind, inner = kind_of(bound)
        match kind:
            case "bound_column":
                return quoted(inner.text("internal"))
            case "bound_text":
                return self._bound_text(inner)
            case "literal":
                return self._literal(inner)
            case "alias":
                return self.text(without_aliases(bound))
            case "unresolved_function" | "call_function":
                return self._function(inner)
            case "cast":
                return self._cast(inner)
            case "unresolved_extract_value":
                return self._extract(inner)
            case "lambda_function":
                return self._lambda(inner)
            case "unresolved_named_lambda_variable":
                return ".".join(inner.texts("name_parts"))
            case "named_argument_expression":
                return f"{inner.text('key')} => {self._inside(inner, 'value')}"
            case "common_inline_user_defined_function":
                return self._shown(inner.text("function_name"), inner.messages("arguments"))
            case "update_fields":
                return self._update_fields(inner)
        return self._shown(kind or "unknown", ())

    def _shown(self, name: str, arguments: tuple[Message, ...]) -> str:
        """A call that only the message can make; the name may be no word of SQL, such as <lambda>."""
        self.is_exact = False
        name = re.sub(r"\W", "_", name) or "udf"
        return f"{name}({', '.join(self.text(each) for each in arguments)})"

    def _operand(self, bound: Message) -> str:
        """The text of an operand: what the program wrote as text may bind less than the operator."""
        text = self.text(bound)
        is_call = kind_of(bound)[1].get("function") is not None
        return f"({text})" if TEXT in bound.fields and not is_call and not text.isidentifier() else text

    def _inside(self, inner: Message, name: str) -> str:
        inside = inner.message(name)
        assert inside is not None
        return self.text(inside)

    def _bound_text(self, inner: Message) -> str:
        holes = inner.get("holes")
        texts = {
            name: self.text(part)
            for name, part in (holes.items() if isinstance(holes, dict) else ())
            if isinstance(part, Message)
        }
        if not texts:
            return inner.text("text")
        return re.sub(rf"\b({'|'.join(texts)})\b", lambda match: texts[match[0]], inner.text("text"))

    def _literal(self, literal: Message) -> str:
        text = literal_text(literal)
        if text is None or _is_collated(literal):
            kind, _ = literal_kind(literal)
            self.is_exact = False
            return f"{kind}_literal()"
        return text

    def _function(self, inner: Message) -> str:
        name, arguments = inner.text("function_name"), inner.messages("arguments")
        lower = name.lower()
        if inner.flag("is_distinct"):
            return f"{lower}(DISTINCT {', '.join(self.text(each) for each in arguments)})"
        texts = [self._operand(each) for each in arguments]
        if lower in OPERATORS and len(texts) == 2:
            return f"({texts[0]} {OPERATORS[lower]} {texts[1]})"
        if lower in ("and", "or") and len(texts) > 2:
            return f"({f' {lower.upper()} '.join(texts)})"
        if lower in _PREFIXES and len(texts) == 1:
            return f"({_PREFIXES[lower]}{texts[0]})"
        if lower in _LIKES and len(texts) == 2:
            return f"({texts[0]} {_LIKES[lower]} {texts[1]})"
        if lower in ("isnull", "isnotnull") and len(texts) == 1:
            return f"({texts[0]} IS {'NOT ' if lower == 'isnotnull' else ''}NULL)"
        if lower == "in" and len(texts) > 1:
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        if lower == "in":
            return self._shown("in_nothing", arguments)
        texts = [self.text(each) for each in arguments]
        if lower == "when":
            return self._case(texts)
        if lower == "struct":
            return self._struct(arguments, texts)
        if lower == "arrays_zip":
            return _arrays_zip(arguments, texts)
        return f"{lower}({', '.join(texts)})"

    def _case(self, texts: list[str]) -> str:
        pairs = zip(texts[::2], texts[1::2], strict=False)
        otherwise = f" ELSE {texts[-1]}" if len(texts) % 2 else ""
        return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in pairs)}{otherwise} END"

    def _struct(self, arguments: tuple[Message, ...], texts: list[str]) -> str:
        names = [field_name(each) or f"col{number + 1}" for number, each in enumerate(arguments)]
        fields = (f"{string_text(name)}, {text}" for name, text in zip(names, texts, strict=True))
        return f"named_struct({', '.join(fields)})"

    def _cast(self, inner: Message) -> str:
        type_ = inner.message("type")
        named = type_text(type_) if type_ is not None else inner.text("type_str")
        mode = inner.text("eval_mode").removeprefix("EVAL_MODE_")
        if named is None or mode not in ("", "UNSPECIFIED", "TRY"):
            self.is_exact = False
        word = "TRY_CAST" if mode == "TRY" else "CAST"
        return f"{word}({self._inside(inner, 'expr')} AS {named or 'unknown'})"

    def _extract(self, inner: Message) -> str:
        child, extraction = inner.message("child"), inner.message("extraction")
        assert child is not None
        assert extraction is not None
        text = self._operand(child)
        kind, literal = kind_of(extraction)
        value = literal.get("string") if kind == "literal" else None
        if isinstance(value, str) and kind_of(child)[0] in (COLUMN, "unresolved_extract_value") and text[-1] != "]":
            return f"{text}.{quote_identifier(value)}"
        return f"{text}[{self.text(extraction)}]"

    def _lambda(self, inner: Message) -> str:
        names = [".".join(each.texts("name_parts")) for each in inner.messages("arguments")]
        listed = names[0] if len(names) == 1 else f"({', '.join(names)})"
        return f"{listed} -> {self._inside(inner, 'function')}"

    def _update_fields(self, inner: Message) -> str:
        self.is_exact = False
        struct, value = self._inside(inner, "struct_expression"), inner.message("value_expression")
        field = string_text(inner.text("field_name"))
        if value is None:
            return f"drop_fields({struct}, {field})"
        return f"with_field({struct}, {field}, {self.text(value)})"


def conjunction(texts: Sequence[str]) -> str:
    """Conditions that must all hold, as one text."""
    if len(texts) == 1:
        return texts[0]
    return " AND ".join(f"({text})" if _has_or(text) else text for text in texts) or "true"


def _has_or(text: str) -> bool:
    """Whether an OR stands outside of all parentheses."""
    depth = 0
    for token in tokens_of(text):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.token_type.name in ("OR", "XOR"):
            return True
    return False


def field_name(argument: Message) -> str | None:
    """The name that struct() gives the field of an argument; None where Spark numbers it."""
    kind, inner = kind_of(argument)
    if kind == "alias":
        names = inner.texts("name")
        return names[0] if len(names) == 1 else None
    column = as_column(argument)
    if column is not None:
        return column.name
    if kind == "unresolved_extract_value":
        extraction = inner.message("extraction")
        value = kind_of(extraction)[1].get("string") if extraction is not None else None
        return value if isinstance(value, str) else None
    if kind == TEXT and inner.get("field") is not None:
        return inner.text("field")
    return None


def _arrays_zip(arguments: tuple[Message, ...], texts: list[str]) -> str:
    """arrays_zip() takes no names for its fields: those that the columns have in the program are given afterwards."""
    listed = ", ".join(f"coalesce({text})" for text in texts)
    names = [field_name(each) or str(number) for number, each in enumerate(arguments)]
    fields = ", ".join(f"{string_text(name)}, {_ELEMENT}.`{number}`" for number, name in enumerate(names))
    return f"transform(arrays_zip({listed}), {_ELEMENT} -> named_struct({fields}))"


def _is_collated(literal: Message) -> bool:
    type_ = literal.message("data_type")
    return type_ is not None and kind_of(type_)[0] == "string" and "collation" in kind_of(type_)[1]
