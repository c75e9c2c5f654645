"""Aliases for the tables of a query whose names change, so that each qualifier means the table that it meant before.

A table without alias qualifies its columns by the last word of its name: it keeps this word as its alias. The whole
name is also allowed as a qualifier, but not in a workflow. It becomes the last word, or an alias that the query does
not have if the last word can mean something else at one of these places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from lineage_service.importers.column_qualifiers import Qualifier, column_qualifiers
from lineage_service.importers.foreign_project import Parts
from lineage_service.spec.legal_names import unused_name


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table without alias in a query. `word`: the last word of its name; empty if it qualifies no column."""

    target: str
    word: str


@dataclass(slots=True)
class TableAliases:
    """The aliases for a query.

    new: the aliases of tables that cannot keep the last word of their name, by what the table is.
    qualifiers: begin, end and new words of qualifiers.
    unclear: qualifiers for which there is no way to write what they mean: they stay, and are refused later.
    """

    new: dict[str, str] = field(default_factory=dict)
    qualifiers: list[tuple[int, int, str]] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def table_aliases(
    text: str,
    tables: Mapping[int, NamedTable],
    resolve: Callable[[Parts], str | None],
    taken: Container[str],
) -> TableAliases:
    """The aliases for a query; `tables` are those without alias, by their places."""
    return _Aliases(text, tables, resolve, taken).found


def qualifies(name: str, query: str) -> bool:
    """Whether columns of a query may be qualified by a name: it stands there with a dot behind it."""
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}`?\s*\.", query, re.IGNORECASE) is not None


class _Aliases:
    def __init__(
        self,
        text: str,
        tables: Mapping[int, NamedTable],
        resolve: Callable[[Parts], str | None],
        taken: Container[str],
    ) -> None:
        self.text, self.tables, self.resolve = text, tables, resolve
        self.found = TableAliases()
        whole: list[tuple[Qualifier, int, str]] = []
        bare: list[Qualifier] = []
        for each in column_qualifiers(text):
            meant = self._whole_name(each)
            if meant is None:
                bare.append(each)
            else:
                whole.append((each, *meant))
        collisions = {target for each, count, target in whole if len(self._meant(each, each.parts[count - 1])) > 1}
        for target in sorted(collisions):
            self._give_new_alias(target, bare, taken)
        for each, count, target in whole:
            alias = self.found.new.get(target, each.parts[count - 1])
            if target in collisions and target not in self.found.new:
                self.found.unclear.append(".".join(each.parts[:count]))
            else:
                self.found.qualifiers.append((each.begin, each.ends[count - 1], alias))

    def _whole_name(self, qualifier: Qualifier) -> tuple[int, str] | None:
        """How many words of a qualifier are the name of a table of the query, and what the table is; None if its first
        word alone qualifies.
        """
        for count in range(len(qualifier.parts), 1, -1):
            target = self.resolve(qualifier.parts[:count])
            if target is not None and target in self._meant(qualifier, qualifier.parts[count - 1]):
                return count, target
        return None

    def _meant(self, qualifier: Qualifier, word: str) -> set[str | None]:
        """What a word can mean in the place of a qualifier: tables without alias, and None for anything else."""
        found: set[str | None] = set()
        for binding in qualifier.visible:
            if binding.word == word.lower():
                table = None if binding.mention is None else self.tables.get(binding.mention)
                found.add(None if table is None else table.target)
        return found

    def _give_new_alias(self, target: str, bare: list[Qualifier], taken: Container[str]) -> None:
        """Gives the table an alias that the query does not have, unless the last word of its name alone also qualifies
        a column where it can mean the table or another one.
        """
        word = next(table.word for table in self.tables.values() if table.target == target)
        spans = []
        for each in bare:
            meant = self._meant(each, each.parts[0]) if each.parts[0].lower() == word.lower() else set()
            if target in meant and len(meant) > 1:
                return
            if target in meant:
                spans.append((each.begin, each.ends[0]))
        used = {*(match[0].lower() for match in re.finditer(r"\w+", self.text)), *self.found.new.values()}
        alias = unused_name(word.lower(), _Either(used, taken))
        self.found.new[target] = alias
        self.found.qualifiers += [(begin, end, alias) for begin, end in spans]


@dataclass(frozen=True, slots=True)
class _Either:
    one: Container[str]
    other: Container[str]

    def __contains__(self, name: object) -> bool:
        return name in self.one or name in self.other
