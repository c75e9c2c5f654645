"""Decides which lineage tables of a run are kept as rows of handles after the pairs are made.

Tables in dataset files or found in sources stay where they are. The others are written, without groups that no dataset
reaches. Ids of groups become small numbers, because hashes of keys must not stay on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lineage_service.capture.handles import Handle, Role, Space, Table
from lineage_service.capture.workload import Workload, hops_between, links_of
from lineage_service.index.compose import view_of
from lineage_service.index.index_engine import IndexEngine
from lineage_service.store.aligned_tables import AlignedTables
from lineage_service.store.layout import HomeLayout
from lineage_service.store.lineage_tables import TableRows

MOST_MEMBERS = 5_000_000  # a table with more rows is only written if a declared question asks for witnesses
TOO_MANY = "it has too many rows to be kept unasked"
PRUNED = "no declared question asks for it"


@dataclass
class TableAligner:
    """Decides for each table, and writes those that must be written.

    members: the number of rows of each table
    pairs: the backward files of pairs that are stored end to end
    """

    tables: Mapping[Space, Table]
    rows: Mapping[Space, TableRows]
    engine: IndexEngine
    home: HomeLayout
    folder: Path
    workload: Workload
    members: Mapping[Space, int]
    pairs: Mapping[tuple[Space, Space], Path]
    kept: dict[Space, TableRows] = field(default_factory=dict)
    missing: dict[Space, str] = field(default_factory=dict)
    numbered: dict[Space, str] = field(default_factory=dict)
    order: list[Space] = field(default_factory=list)
    paired: set[Space] = field(default_factory=set)

    def align(self) -> AlignedTables:
        asked = self._spaces_for_witnesses()
        if asked is None:
            self._take_pairs()
        self.order = self._order()
        for space in self.order:
            rows = self.rows.get(space)
            if rows is None:
                continue
            if asked is not None and space not in asked:
                self.missing[space] = PRUNED
            elif self._is_kept_in_place(space, rows):
                self.kept[space] = rows
            elif asked is None and self.members.get(space, 0) > MOST_MEMBERS:
                self.missing[space] = TOO_MANY
            else:
                self.kept[space] = self._write_table(space)
        for name in self.numbered.values():
            self.engine.drop(name)
        return AlignedTables(self.tables, self.kept, self.missing, None if asked is None else frozenset(asked))

    def _spaces_for_witnesses(self) -> set[Space] | None:
        """Spaces that declared questions need for witnesses; None for all, if nothing is declared."""
        if not self.workload.questions:
            return None
        links = links_of(self.tables.values())
        ends = [pair for each in self.workload.questions if each.kind == "witnesses" for pair in each.ends]
        return {space for upper, lower in ends for hop in hops_between(links, upper, lower) for space in hop}

    def _take_pairs(self) -> None:
        """Groups of a single dataset's rows, each contained once. Their pairs are the members, also over nested
        groups.
        """
        for dataset in [space for space in self.tables if space.is_dataset]:
            chain: list[Table] = []
            at = dataset
            while not chain or not at.is_dataset:
                table = self.tables.get(at)
                if table is None or len(table.handles) != 1 or table.handles[0].role is not Role.OWN:
                    break
                if chain and (table.once != (True,) or table.left is not None or self._reference_count(at) != 1):
                    break
                chain.append(table)
                at = table.handles[0].space
            path = self.pairs.get((dataset, at))
            if len(chain) < 2 or not at.is_dataset or path is None or any(each.always for each in chain[2:]):
                continue
            first = chain[1]
            if self.rides(first.space):
                continue
            self.tables = {**self.tables, first.space: replace(first, handles=(Handle(at),))}
            rows = TableRows("files", (self.home.relative(path),), "a", ("b",), carrier=dataset.name)
            self.rows = {**self.rows, first.space: rows}
            self.paired.add(first.space)

    def _reference_count(self, space: Space) -> int:
        return sum(handle.space == space for table in self.tables.values() for handle in table.handles)

    def _order(self) -> list[Space]:
        """Datasets and the groups behind them, in topological order. Only contributing handles: peers and absence do
        not occur in witnesses.
        """
        seen: set[Space] = set()
        reverse: list[Space] = []

        def visit(space: Space) -> None:
            if space in seen or space not in self.tables:
                return
            seen.add(space)
            for handle in self._inner(space):
                visit(handle.space)
            reverse.append(space)

        for space in self.tables:
            if space.is_dataset:
                visit(space)
        return reverse[::-1]

    def _inner(self, space: Space) -> list[Handle]:
        """The handles into groups."""
        return [each for each in self.tables[space].handles if each.role is Role.OWN and not each.space.is_dataset]

    def _parents(self, space: Space) -> list[tuple[Space, int]]:
        """The tables that refer to a space, with the handles concerned."""
        return [
            (above, place)
            for above in self.order
            for place, handle in enumerate(self.tables[above].handles)
            if handle.space == space and handle.role is Role.OWN and above in self.rows
        ]

    def _is_lazy(self, space: Space) -> bool:
        rows = self.rows.get(space)
        return rows is not None and rows.kind == "lazy" and rows.direct is None

    def _is_numbered(self, space: Space) -> bool:
        """Whether ids of a space are hashes or similar and are replaced by small numbers."""
        rows = self.rows.get(space)
        if rows is None or space.is_dataset or rows.carrier is not None or rows.id is None:
            return False
        return rows.kind != "lazy" and not any(self._is_lazy(above) for above, _ in self._parents(space))

    def _is_kept_in_place(self, space: Space, rows: TableRows) -> bool:
        """Whether a table stays where it is and refers to no ids that are replaced."""
        if space in self.paired or self._is_lazy(space) or (rows.direct is not None and not rows.files):
            return True
        lasting = space.is_dataset or (rows.nested is not None and rows.carrier is not None)
        return lasting and not any(self._is_numbered(handle.space) for handle in self._inner(space))

    def _write_table(self, space: Space) -> TableRows:
        table, view = self.tables[space], view_of(space)
        shown, joins = ["t.id AS id"], []
        if self._is_numbered(space):
            shown[0] = "n.number AS id"
            joins.append(f"JOIN {self._numbers(space)} n ON n.id = t.id")
        for place, handle in enumerate(table.handles):
            value = f"t.h{place}"
            if handle.role is not Role.OWN or self.rides(handle.space):
                value = "CAST(NULL AS BIGINT)"
            elif self._is_numbered(handle.space):
                joins.append(f"LEFT JOIN {self._numbers(handle.space)} n{place} ON n{place}.id = t.h{place}")
                value = f"n{place}.number"
            shown.append(f"{value} AS h{place}")
        names = tuple(f"h{place}" for place in range(len(table.handles)))
        query = f"SELECT {', '.join(shown)} FROM {view} t {' '.join(joins)}"
        path = self.engine.write_rows(query, ["id", *names], self.folder / f"{len(self.kept)}.aligned")
        carrier = self.rows[space].carrier if not space.is_dataset else None
        return TableRows("files", (self.home.relative(path),), "id", names, carrier=carrier)

    def rides(self, space: Space) -> bool:
        return space in self.rows and self.rows[space].carrier is not None

    def _numbers(self, space: Space) -> str:
        """A table (id, number) of the groups that something refers to."""
        if space not in self.numbered:
            parts = [
                f"SELECT t.h{place} AS id FROM {view_of(above)} t"
                + (f" JOIN {self._numbers(above)} n ON n.id = t.id" if self._is_numbered(above) else "")
                for above, place in self._parents(space)
            ]
            name = f"aligned{len(self.numbered)}"
            self.engine.keep(
                name,
                "SELECT id, CAST(row_number() OVER (ORDER BY id) - 1 AS BIGINT) AS number FROM "
                f"(SELECT DISTINCT id FROM ({' UNION ALL '.join(parts)}) x WHERE id IS NOT NULL) y",
            )
            self.numbered[space] = name
        return self.numbered[space]
