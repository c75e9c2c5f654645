"""The names of tables in compiled code, and the models, seeds and sources that they mean."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_service.importers.dbt.manifest import Manifest, text
from lineage_service.importers.foreign_project import Parts


class Relations:
    """Names are compared as Spark does: small and capital letters are the same. Several nodes can have one table: two
    packages that declare the same source, or a source that another package builds. The table is that of the first of
    them; what the project builds comes before sources.
    """

    def __init__(self, manifest: Manifest, dialect: str | None) -> None:
        self._parts: dict[str, Parts] = {}
        self._by_parts: dict[Parts, list[str]] = {}
        self._expressions: dict[str, str] = {}
        for key, node in manifest.nodes("model", "seed", "snapshot", "source"):
            if text(node, "config", "materialized") == "ephemeral":
                self._add(key, (f"__dbt__cte__{text(node, 'name')}",))
                continue
            name = text(node, "identifier") or text(node, "alias") or text(node, "name")
            written = text(node, "relation_name")
            parts = _dotted(written, dialect) if written else None
            if written and parts is None:  # files, or a function that reads them
                parts = (self._expressions.setdefault(written, f"__relation_{len(self._expressions)}"),)
            if parts is None:
                parts = tuple(filter(None, (text(node, "database"), text(node, "schema"), name)))
            if parts:
                self._add(key, parts)

    def _add(self, key: str, parts: Parts) -> None:
        self._parts[key] = parts
        self._by_parts.setdefault(_lower(parts), []).append(key)

    def parts_of(self, key: str) -> Parts | None:
        """The name of a node's table."""
        return self._parts.get(key)

    def same_table(self, key: str) -> tuple[str, ...]:
        """The nodes that have the table of a node; the first stands for all of them."""
        parts = self._parts.get(key)
        return (key,) if parts is None else tuple(self._by_parts[_lower(parts)])

    def resolve(self, parts: Parts) -> str | None:
        """The node that has the table that a name means. A name with fewer parts, or more, means the table that ends
        with the same parts, if there is only one.
        """
        wanted = _lower(parts)
        if wanted in self._by_parts:
            return self._by_parts[wanted][0]
        found = [keys for each, keys in self._by_parts.items() if _same_end(each, wanted)]
        return found[0][0] if len(found) == 1 else None

    def with_names(self, code: str) -> str:
        """The code with a name in the place of each relation that is an expression, such as read_csv('…')."""
        for written, name in self._expressions.items():
            code = code.replace(written, name)
        return code


def tokens_of(code: str, dialect: str | None) -> tuple[str, ...]:
    """The words of a text, without its strings; templates are the words `{{` and `{%`. Empty if it cannot be read."""
    return tuple(word for word, is_name in _tokens(code, dialect) if not is_name)


def _dotted(written: str, dialect: str | None) -> Parts | None:
    """The parts of a name; None for anything else."""
    tokens = list(_tokens(written, dialect))
    parts = tokens[::2]
    if not tokens or len(tokens) % 2 == 0 or any(word != "." for word, _ in tokens[1::2]):
        return None
    plain = all(is_name or word.replace("$", "").replace("-", "").isidentifier() for word, is_name in parts)
    return tuple(word for word, _ in parts) if plain else None


def _tokens(written: str, dialect: str | None) -> Iterator[tuple[str, bool]]:
    """Words, and whether each is a name in quotes. Texts are left out."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    try:
        tokens = Dialect.get_or_raise(dialect or "spark").tokenize(written)
    except SqlglotError:
        return
    before = None
    for token in tokens:
        kind = token.token_type.name
        if kind == "L_BRACE" and before is not None and before.text == "{" and before.end + 1 == token.start:
            yield "{{", False
        elif kind == "BLOCK_START":
            yield written[token.start : token.start + 2], False
        elif kind != "STRING":
            yield token.text, kind == "IDENTIFIER"
        else:
            yield "''", False
        before = token


def _same_end(one: Parts, other: Parts) -> bool:
    count = min(len(one), len(other))
    return one[-count:] == other[-count:]


def _lower(parts: Parts) -> Parts:
    return tuple(part.lower() for part in parts)
