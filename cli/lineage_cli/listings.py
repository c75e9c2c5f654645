"""Lists of the catalog's content as tables that fit a terminal, without columns of little use there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lineage_cli.tables import GAP
from lineage_cli.tree_drawing import width_of
from lineage_service.query.answer import Answer, AnswerPart
from lineage_service.render.column_text import plain_text

if TYPE_CHECKING:
    from lineage_cli.options import Output

SHORTEST_ID = 8


@dataclass(frozen=True, slots=True)
class Listing:
    """How a list is shown as a table.

    `hidden`: columns that only other formats have. `times`: columns shown to the second. `spare`: columns that are
    dropped one by one if the terminal is too narrow even with short run ids. `lists`: columns joined by commas.
    """

    hidden: tuple[str, ...]
    spare: tuple[str, ...]
    times: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


RUNS = Listing(("workflow_version",), ("status", "started_at", "capture"), ("started_at", "committed_at"))
DATASETS = Listing(("version",), ("bytes", "kind"))
LOG = Listing(
    ("subjects", "details", "key_id", "previous", "hash"), ("counts", "datasets", "actor", "request"), ("at",)
)
CASES = Listing(
    ("overdue", "plan_id", "planned_name", "approved_name", "approved_at", "updated_at"),
    ("recipients", "reason", "received", "verified_by", "planned_by", "four_eyes", "approved_by"),
    lists=("recipients",),
)
COLUMNS = Listing(("run_id",), ("type",), lists=("computed_from", "influenced_by"))


def fit_listing(answer: Answer, listing: Listing, output: Output) -> Answer:
    """Adapts the answer to a table; for other formats it is unchanged."""
    if output.format != "table":
        return answer
    (part,) = answer.parts
    table = _to_the_second(pa.Table.from_batches(list(part.batches())), listing)
    table = _with_commas(table, listing)
    table = table.drop_columns([name for name in listing.hidden if name in table.column_names])
    if output.on_terminal:
        screen = shutil.get_terminal_size().columns
        variants = list(_narrower_variants(table, listing))
        table = next((each for each in variants if _width(each) <= screen), variants[-1])
    return Answer(
        [AnswerPart(table.column_names, table.to_reader, remaining=part.remaining)], answer.kind, answer.notes
    )


def _to_the_second(table: pa.Table, listing: Listing) -> pa.Table:
    """Shows 2026-11-16T05:04:31.123+00:00 as 2026-11-16 05:04:31; all times are UTC."""
    for name in listing.times:
        if name in table.column_names:
            text = pc.utf8_slice_codeunits(pc.cast(table[name], pa.large_string()), 0, 19)
            table = _replace_column(table, name, pc.replace_substring(text, "T", " "))
    return table


def _with_commas(table: pa.Table, listing: Listing) -> pa.Table:
    for name in listing.lists:
        table = _replace_column(table, name, pc.binary_join(pc.cast(table[name], pa.list_(pa.string())), ", "))
    return table


def _narrower_variants(table: pa.Table, listing: Listing) -> Iterator[pa.Table]:
    yield table
    if "run_id" in table.column_names:
        table = _replace_column(table, "run_id", _shorten_ids(table["run_id"]))
        yield table
    for name in listing.spare:
        if name in table.column_names:
            table = table.drop_columns([name])
            yield table


def _shorten_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns unique prefixes of the ids: every verb accepts a prefix."""
    every = {each for each in ids.to_pylist() if each}
    length = SHORTEST_ID
    while len({each[:length] for each in every}) < len(every):
        length += 1
    return pc.utf8_slice_codeunits(pc.cast(ids, pa.large_string()), 0, length)


def _replace_column(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _width(table: pa.Table) -> int:
    """Returns the width of the table on the screen."""
    widths = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        cells = plain_text(column.combine_chunks()).to_pylist()
        widths.append(max(width_of(text or "null") for text in (name, *cells)))
    return sum(widths) + len(GAP) * (len(widths) - 1)
