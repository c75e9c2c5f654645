"""Reads a declared schema, Spark DDL such as `id BIGINT, name: STRING NOT NULL`, without Spark.

Accepts what Spark accepts, and names types as Spark does. Anything that cannot be read is an error, because a column
that was left out would be unknown to the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lineage_service.errors import WorkflowError, did_you_mean
from lineage_service.plan.schema import Column

MOST_NESTED = 100  # levels of a type, as in expressions

_SIMPLE_TYPES = {
    "boolean": "boolean", "tinyint": "tinyint", "byte": "tinyint", "smallint": "smallint", "short": "smallint",
    "int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "float": "float", "real": "float",
    "double": "double", "date": "date", "timestamp_ntz": "timestamp_ntz", "timestamp_ltz": "timestamp",
    "binary": "binary", "void": "void", "variant": "variant",
}  # fmt: skip
_OTHER_TYPES = ("array", "char", "character", "dec", "decimal", "geography", "geometry", "interval", "map", "numeric",
                "string", "struct", "time", "timestamp", "varchar")  # fmt: skip
_UNITS = {each: each for each in ("year", "month", "day", "hour", "minute", "second")}
_UNITS |= {f"{each}s": each for each in _UNITS}
FOREIGN_TYPES = {
    **dict.fromkeys(("str", "text", "object", "uuid", "json", "nvarchar"), "string"), "bool": "boolean",
    **dict.fromkeys(("int64", "uint64", "uint32", "serial"), "bigint"), "int32": "int", "int8": "tinyint",
    "int16": "smallint", "float64": "double", "float32": "float", "datetime": "timestamp", "datetime64": "timestamp",
    "number": "decimal(18, 2)", "bytes": "binary", "bytea": "binary", "blob": "binary",
}  # fmt: skip

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<text>[rR]?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"))
    |(?P<word>[A-Za-z0-9_]+)
    |(?P<sign>[<>(),:.])
    |(?P<other>[^\s<>(),:.]+)""",
    re.VERBOSE | re.DOTALL,
)
_FORM = "each column is `name type`, with NOT NULL and COMMENT '…' behind it where needed; commas stand between columns"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int = -1

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """The word in lower case; empty if it is no word, so that no keyword equals it."""
        return self.text.lower() if self.kind == "word" else ""


_END = _Token("end", "the end")


def parse_declared_schema(ddl: str) -> list[Column]:
    """The columns of a schema. Raises WorkflowError if any part of it cannot be read."""
    tokens = [
        _Token(str(match.lastgroup), match[0], match.start())
        for match in _TOKEN.finditer(ddl)
        if match.lastgroup != "space"
    ]
    if not tokens:
        raise WorkflowError("schema: it has no columns", hint=_FORM)
    words = [each.word for each in tokens]
    if words[0] == "create" and "table" in words[1:5]:
        raise WorkflowError(
            "schema: only the columns are written", hint="without CREATE TABLE: `id bigint, name string`"
        )
    try:
        columns = list(_Parser(tokens).columns())
    except WorkflowError:
        columns = _columns_of_single_type(tokens)
        if not columns:
            raise
    seen: set[str] = set()
    for each in columns:
        if each.name.lower() in seen:
            raise WorkflowError(
                f"schema: two columns are called '{each.name}' (names are compared without regard to case)"
            )
        seen.add(each.name.lower())
    return columns


def _columns_of_single_type(tokens: list[_Token]) -> list[Column]:
    """The columns of a schema that is a single type: the fields of a struct, otherwise one column with Spark's name for
    it. Empty if it is no type.
    """
    try:
        if tokens[0].word == "struct":
            return list(_Parser(tokens[1:]).fields_in_brackets())
        return [Column("value", _Parser(tokens).single_type())]
    except WorkflowError:
        return []


class _Parser:
    """Reads tokens from left to right."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at, self._depth = tokens, 0, 0

    def columns(self) -> Iterator[Column]:
        """All tokens as columns."""
        while True:
            yield self._column()
            if self._next is _END:
                return
            self._expect(",")

    def fields_in_brackets(self) -> Iterator[Column]:
        """All tokens as the fields of a struct."""
        yield from self._fields()
        self._expect_end()

    def single_type(self) -> str:
        """All tokens as a type."""
        found = self._type("value")
        self._expect_end()
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _takes(self, *words: str) -> bool:
        """Consumes these words or signs if they are next."""
        following = self._tokens[self._at : self._at + len(words)]
        found = tuple(each.word or each.text for each in following) == words
        self._at += len(words) if found else 0
        return found

    def _expect(self, sign: str, of: str = "") -> None:
        if not self._takes(sign):
            behind = of or (f"column '{self._last}'" if self._last else "it")
            raise WorkflowError(f"schema: {self._next_text()} cannot follow {behind}", hint=_FORM)

    def _expect_end(self) -> None:
        if self._next is not _END:
            raise WorkflowError(f"schema: {self._next_text()} cannot be at its end", hint=_FORM)

    def _next_text(self) -> str:
        return "its end" if self._next is _END else f"'{self._next.text}'"

    _last = ""

    def _column(self) -> Column:
        name = self._name()
        self._takes(":")
        kind = self._type(name)
        self._takes("not", "null")
        if self._takes("comment"):
            if self._next.kind != "text":
                raise WorkflowError(f"schema: the comment of column '{name}' needs quotes", hint="COMMENT '…'")
            while self._next.kind == "text":
                self._take()
        self._last = name
        return Column(name, kind)

    def _name(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`")
        glued, end = "", token.end
        while self._next.start == end and (self._next.kind in ("other", "word") or self._next.text == "."):  # a-b, a.b
            glued, end = glued + self._next.text, self._take().end
        if token.kind != "word" or glued:
            if token is _END or token.text in (",", ">"):
                raise WorkflowError("schema: a column is missing after a comma", hint=_FORM)
            name = token.text.strip("'\"") if token.kind == "text" else token.text + glued
            raise WorkflowError(
                f"schema: '{name}' is no name of a column without backquotes: only letters, digits and _ are",
                hint="write such a name as `…`",
            )
        return token.text

    def _type(self, name: str) -> str:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise WorkflowError("schema: its types are nested too deeply to be read")
        found = self._type_at_depth(name)
        self._depth -= 1
        return found

    def _type_at_depth(self, name: str) -> str:
        token = self._take()
        of = f"`{token.text}` of column '{name}'"
        match token.word:
            case "":
                raise WorkflowError(f"schema: column '{name}' has no type", hint=f"for example `{name} string`")
            case word if word in _SIMPLE_TYPES:
                return _SIMPLE_TYPES[word]
            case "array":
                self._expect("<", of)
                element = self._type(name)
                self._expect(">", of)
                return f"array<{element}>"
            case "map":
                self._expect("<", of)
                key = self._type(name)
                self._expect(",", of)
                value = self._type(name)
                self._expect(">", of)
                return f"map<{key},{value}>"
            case "struct":
                return f"struct<{','.join(f'{_quote_name(each.name)}:{each.type}' for each in self._fields(of))}>"
            case "decimal" | "dec" | "numeric":
                digits = self._numbers(of, 2) if self._next.text == "(" else ["10"]
                return f"decimal({digits[0]},{digits[1] if len(digits) > 1 else '0'})"
            case "char" | "character" | "varchar":
                if self._next.text != "(":
                    raise WorkflowError(f"schema: {of} needs a length", hint="or write `string`")
                kind = "varchar" if token.word == "varchar" else "char"
                return f"{kind}({self._numbers(of, 1)[0]})"
            case "time":
                places = self._numbers(of, 1)[0] if self._next.text == "(" else "6"
                self._takes("without", "time", "zone")
                return f"time({places})"
            case "timestamp":
                return "timestamp_ntz" if self._takes("without", "time", "zone") else "timestamp"
            case "string":
                if self._takes("collate"):
                    self._name()
                    while self._takes("."):
                        self._name()
                return "string"
            case "interval":
                return self._interval(of)
            case "geometry" | "geography":
                self._expect("(", of)
                inside = self._take().text
                self._expect(")", of)
                return f"{token.word}({inside.lower()})"
            case word:
                foreign = FOREIGN_TYPES.get(word)
                hint = f"here it is `{foreign}`" if foreign else did_you_mean(word, [*_SIMPLE_TYPES, *_OTHER_TYPES])
                raise WorkflowError(f"schema: '{token.text}' is not a Spark type", hint=hint)

    def _fields(self, of: str = "`struct`") -> list[Column]:
        self._expect("<", of)
        fields: list[Column] = []
        if self._takes(">"):
            return fields
        while True:
            fields.append(self._column())
            if self._takes(">"):
                return fields
            self._expect(",", of)

    def _numbers(self, of: str, most: int) -> list[str]:
        """Numbers in parentheses: `(10, 2)`."""
        self._expect("(", of)
        found: list[str] = []
        while True:
            token = self._take()
            if not token.text.isdecimal() or len(found) == most:
                numbers = "a number" if most == 1 else "one or two numbers"
                raise WorkflowError(f"schema: {of} needs {numbers} in brackets")
            found.append(token.text)
            if self._takes(")"):
                return found
            self._expect(",", of)

    def _interval(self, of: str) -> str:
        if self._next.word not in _UNITS:
            return "interval"
        first = _UNITS[self._take().word]
        if not self._takes("to"):
            return f"interval {first}"
        if self._next.word not in _UNITS:
            raise WorkflowError(f"schema: {of} needs a unit behind TO", hint="for example `interval day to second`")
        return f"interval {first} to {_UNITS[self._take().word]}"


def _quote_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name, re.ASCII) else f"`{name.replace('`', '``')}`"
