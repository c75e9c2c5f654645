"""The statements of a SQL file of a pipeline: what each of them makes, and the text of its query as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from lineage_service.importers.foreign_project import Parts
from lineage_service.spec.sql_parsing import tokenize_query

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Kind = Literal["materialized view", "temporary view", "view", "streaming table", "flow", "set", "use", "other"]

# First word of a clause, and its name in messages.
_CLAUSES = {
    "USING": "USING",
    "OPTIONS": "OPTIONS",
    "PARTITIONED": "PARTITIONED BY",
    "CLUSTER": "CLUSTER BY",
    "CLUSTERED": "CLUSTERED BY",
    "TBLPROPERTIES": "TBLPROPERTIES",
    "LOCATION": "LOCATION",
    "SCHEDULE": "SCHEDULE",
    "DEFAULT": "DEFAULT COLLATION",
}


@dataclass(frozen=True, slots=True)
class Column:
    """An entry of a column list; `declares` says whether it has a type, or a constraint."""

    name: str
    declares: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    line: where it begins in its file.
    shown: its first words, for messages.
    name: of what it makes; empty if it makes nothing, or if the name is computed.
    query: the query behind AS, with the comments that stand before it; empty if there is none.
    columns: the column list behind the name.
    comment: of COMMENT.
    clauses: the names of other clauses.
    words: of `SET` and `USE`: what follows.
    """

    kind: Kind
    line: int
    shown: str
    name: Parts = ()
    query: str = ""
    columns: tuple[Column, ...] = ()
    comment: str = ""
    clauses: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def statements_of(text: str) -> tuple[Statement, ...]:
    """The statements of a file's text. SqlSyntaxError if it cannot be cut into tokens."""
    found: list[Statement] = []
    tokens: list[Token] = []
    begin, carried = 0, ""  # comments between semicolons belong to what follows
    for token in tokenize_query(text):
        if token.token_type.name != "SEMICOLON":
            tokens.append(token)
            continue
        if tokens:
            found.append(_Reader(text, tokens, begin, token.start, carried).statement())
            carried = ""
        else:
            carried += _comments(text[begin : token.start])
        tokens, begin = [], token.end + 1
    if tokens:
        found.append(_Reader(text, tokens, begin, len(text), carried).statement())
    else:
        behind = carried + _comments(text[begin:])
        if behind and found and found[-1].query:
            found[-1] = replace(found[-1], query=f"{found[-1].query}\n{behind}".rstrip("\n"))
    return tuple(found)


class _Reader:
    """Reads one statement from its tokens. `carried` are comments before it that stand elsewhere."""

    def __init__(self, text: str, tokens: Sequence[Token], begin: int, end: int, carried: str) -> None:
        self.text, self.tokens, self.begin, self.end, self.carried = text, tokens, begin, end, carried
        self.at = 0

    def statement(self) -> Statement:
        first = self.tokens[0]
        line = self.text.count("\n", 0, first.start) + 1
        shown = " ".join(self.text[first.start : self.end].split()[:4])
        kind = self._kind()
        if kind in ("set", "use"):
            rest = self.text[self.tokens[0].end + 1 : self.end].split()
            return Statement(kind, line, shown, words=tuple(rest))
        if kind in ("other", "flow"):
            return Statement(kind, line, shown, name=self._name() if kind == "flow" else ())
        if self._accept("IF"):
            self._accept("NOT")
            self._accept("EXISTS")
        name = self._name()
        columns = tuple(self._columns())
        comment, clauses, behind = self._header()
        query = "" if behind is None else self._query(behind)
        return Statement(kind, line, shown, name, query, columns, comment, clauses)

    def _kind(self) -> Kind:
        if self._accept("SET"):
            return "set"
        if self._accept("USE"):
            return "use"
        if not self._accept("CREATE"):
            return "other"
        if self._accept("OR"):
            self.at += 1  # REPLACE or REFRESH
        if self._accept("MATERIALIZED"):
            return "materialized view" if self._accept("VIEW") else "other"
        if self._accept("STREAMING"):
            return "streaming table" if self._accept("TABLE") else "other"
        if self._accept("FLOW"):
            return "flow"
        temporary = self._accept("LOCAL")
        temporary = self._accept("TEMPORARY") or self._accept("TEMP") or temporary
        if self._accept("VIEW"):
            return "temporary view" if temporary else "view"
        return "other"

    def _accept(self, word: str) -> bool:
        """Passes a word. A token may have several words."""
        token = self._token()
        if token is None or token.token_type.name in ("STRING", "IDENTIFIER"):
            return False
        if token.text.upper() == word or token.text.upper().split()[:1] == [word]:
            self.at += 1
            return True
        return False

    def _token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def _name(self) -> Parts:
        parts: list[str] = []
        while (token := self._token()) is not None and token.token_type.name != "STRING":
            parts.append(token.text)
            self.at += 1
            behind = self._token()
            if behind is None or behind.text != ".":
                break
            self.at += 1
        behind = self._token()
        if len(parts) == 1 and parts[0].upper() == "IDENTIFIER" and behind is not None and behind.text == "(":
            list(self._columns())
            return ()
        return tuple(parts)

    def _columns(self) -> Iterator[Column]:
        token = self._token()
        if token is None or token.text != "(":
            return
        depth, entry = 0, list[str]()
        while (token := self._token()) is not None:
            self.at += 1
            word = "" if token.token_type.name == "STRING" else token.text
            depth += (word in ("(", "<")) - (word in (")", ">")) - 2 * (word == ">>")
            if depth == 0 or (depth == 1 and word == ","):
                yield from self._column(entry)
                entry = []
            elif not (depth == 1 and word == "("):
                entry.append(token.text)
            if depth == 0:
                return

    def _column(self, entry: Sequence[str]) -> Iterator[Column]:
        if entry:
            rest = [word.upper() for word in entry[1:]]
            yield Column(entry[0], declares=bool(rest) and rest[0] != "COMMENT")

    def _header(self) -> tuple[str, tuple[str, ...], int | None]:
        """The comment and the clauses before AS, and the index of the token behind it."""
        depth, comment, clauses = 0, "", list[str]()
        while (token := self._token()) is not None:
            self.at += 1
            if token.token_type.name in ("STRING", "IDENTIFIER"):
                continue
            depth += (token.text == "(") - (token.text == ")")
            word = token.text.upper().split()[0] if token.text.split() else ""
            if depth:
                continue
            if word == "AS":
                return comment, tuple(clauses), self.at
            behind = self._token()
            if word == "COMMENT" and behind is not None and behind.token_type.name == "STRING":
                comment = self._string()
            elif word in _CLAUSES:
                clauses.append(_CLAUSES[word])
        return comment, tuple(clauses), None

    def _string(self) -> str:
        """The text here: 'it''s' is two tokens."""
        texts = []
        while (token := self._token()) is not None and token.token_type.name == "STRING":
            texts.append(token.text)
            self.at += 1
        return "'".join(texts)

    def _query(self, behind: int) -> str:
        """The text behind AS as it was written, below the comments before AS."""
        before = [self.carried, _comments(self.text[self.begin : self.tokens[0].start])]
        before += [_comments(self._gap(index)) for index in range(behind - 1)]
        written = self.text[self.tokens[behind - 1].end + 1 : self.end].rstrip()
        first, line_break, rest = written.partition("\n")
        written = f"{first.lstrip()}\n{rest}" if line_break and first.strip() else rest if line_break else first.strip()
        return "".join(before) + written

    def _gap(self, index: int) -> str:
        return self.text[self.tokens[index].end + 1 : self.tokens[index + 1].start]


def _comments(gap: str) -> str:
    """The comments between two tokens, each line of them as a line."""
    lines = [line.strip() for line in gap.strip().split("\n")]
    return "".join(f"{line}\n" for line in lines) if gap.strip() else ""
