"""Where a query names tables, exactly, so that the names can be replaced and everything else stays as it was written.

The places come from the parser. A text that cannot be parsed is searched token by token, for names behind FROM and
JOIN: such a query will be refused later, with the reason; but what it reads should be known before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_service.importers.foreign_project import Parts
from lineage_service.spec.sql_parsing import parse_query, tokenize_query
from lineage_service.spec.sql_syntax import SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Mention:
    """A table's name in a query.

    begin, end: its place in the text.
    has_alias: whether an alias follows.
    ctes: the names, in lower case, that mean parts of the query at this place.
    """

    begin: int
    end: int
    parts: Parts
    has_alias: bool = False
    ctes: frozenset[str] = field(default=frozenset())


def table_mentions(text: str) -> tuple[Mention, ...]:
    """Every mention of a table that is no part of the query itself, in order of appearance."""
    try:
        tree = parse_query(text)
    except SqlSyntaxError:
        return tuple(_mentions_by_token(text))
    found = {mention.begin: mention for mention in _tables(tree, frozenset())}
    return tuple(found[begin] for begin in sorted(found))


def replace_spans(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """The text with other words in some places; places do not overlap."""
    done, parts = 0, []
    for begin, end, words in sorted(spans):
        parts += [text[done:begin], words]
        done = end
    return "".join([*parts, text[done:]])


def place_of(parts: Iterable[Any]) -> tuple[int, int, Parts] | None:
    """Begin, end and the words of a dotted name; None for a function in the place of a table."""
    from sqlglot import exp

    found = list(parts)
    if not found or not all(isinstance(part, exp.Identifier) and "start" in part.meta for part in found):
        return None
    return found[0].meta["start"], found[-1].meta["end"] + 1, tuple(part.name for part in found)


def _tables(tree: exp.Expr, ctes: frozenset[str]) -> Iterator[Mention]:
    """A CTE is seen by those behind it, and by the query it belongs to; a recursive one also by itself."""
    from sqlglot import exp

    clause = tree.args.get("with_")
    recursive = clause is not None and clause.args.get("recursive")
    for cte in clause.expressions if clause is not None else ():
        own = frozenset({cte.alias.lower()}) if recursive else frozenset[str]()
        yield from _tables(cte.this, ctes | own)
        ctes = ctes | {cte.alias.lower()}
    if isinstance(tree, exp.Table):
        place = place_of(tree.parts)
        if place is not None and not (len(tree.parts) == 1 and tree.name.lower() in ctes):
            yield Mention(*place, has_alias=bool(tree.alias), ctes=ctes)
    for key, value in tree.args.items():
        for child in value if isinstance(value, list) else [value]:
            if key != "with_" and isinstance(child, exp.Expression):
                yield from _tables(child, ctes)


def _mentions_by_token(text: str) -> Iterator[Mention]:
    try:
        tokens = tokenize_query(text)
    except SqlSyntaxError:
        return
    own = {
        tokens[index - 1].text.lower()
        for index, token in enumerate(tokens)
        if index and token.text.upper() == "AS" and index + 1 < len(tokens) and tokens[index + 1].text == "("
    }
    index = 0
    while index < len(tokens):
        first, before = index, tokens[index - 1].text.upper() if index else ""
        while index + 2 < len(tokens) and tokens[index + 1].text == "." and _is_word(tokens[index + 2]):
            index += 2
        words = tuple(token.text for token in tokens[first : index + 1 : 2])
        reads = before in ("FROM", "JOIN") and _is_word(tokens[first])
        if reads and not (len(words) == 1 and words[0].lower() in own):
            behind = tokens[index + 1] if index + 1 < len(tokens) else None
            has_alias = behind is not None and (behind.text.upper() == "AS" or behind.token_type.name == "VAR")
            if behind is None or behind.text != "(":  # otherwise a function
                yield Mention(tokens[first].start, tokens[index].end + 1, words, has_alias=has_alias)
        index += 1


def _is_word(token: Any) -> bool:
    return bool(token.text) and token.token_type.name != "STRING" and (token.text[0].isalpha() or token.text[0] in "_`")
