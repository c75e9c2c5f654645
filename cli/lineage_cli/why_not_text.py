"""Where rows are lost, for people: a sentence, a table of steps, and where the others are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lineage_cli.tables import MASK, Column, write_table

if TYPE_CHECKING:
    from lineage_cli.sink import Sink
    from lineage_service.why_not.why_not_result import ReasonCount, StepLoss, WhyNot

SHOWN = 5  # row ids in a line of the table, and rows that arrive, unless more are asked for


def write_losses(found: WhyNot, sink: Sink, *, terminal: bool, limit: int | None = None) -> None:
    """Writes the answer; `limit` row ids of each reason, and rows that arrive."""
    shown = SHOWN if limit is None else limit
    sink.write_text(f"{_summary(found)}\n")
    several = any(step.ended != step.lost for step in found.steps)
    if found.steps:
        sink.write_text("\n")
        columns = [Column("step"), Column("operation"), Column("input"), Column("rows in", right=True)]
        if several:
            columns.append(Column("end here", right=True))
        columns += [Column("lost", right=True), Column("why"), Column("rows", right=True), Column("row ids")]
        rows = [row for step in found.steps for row in _rows(step, shown, several=several)]
        write_table(columns, rows, sink, terminal=terminal)
    lines = [*_examples(found, shown), *_arrivals(found, shown)]
    if lines:
        sink.write_text("\n" + "".join(f"{line}\n" for line in lines))


def _summary(found: WhyNot) -> str:
    missing = found.asked - found.reached
    told = f"{_row_count(found.asked)} of {found.source}: {found.reached:,} in {found.to}, {missing:,} not"
    if found.peers:
        told += f" ({found.peers:,} of these only as peers in a window)"
    return told


def _row_count(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _rows(step: StepLoss, shown: int, *, several: bool) -> Iterator[tuple[str | None, ...]]:
    came = "?" if step.rows_in is None else f"{step.rows_in:,}"
    counts = [came, *([f"{step.ended:,}"] if several else []), f"{step.lost:,}"]
    first = [step.step, step.operation, step.input, *counts]
    if not step.reasons:
        yield (*first, "", "", "")
    for number, reason in enumerate(step.reasons):
        own = first if number == 0 else [""] * len(first)
        yield (*own, reason.text, f"{reason.rows:,}", _ids(reason, shown))


def _ids(reason: ReasonCount, shown: int) -> str:
    ids = ", ".join(map(str, reason.rids[:shown]))
    more = reason.rows - min(len(reason.rids), shown)
    return f"{ids} and {more:,} more" if more and ids else ids


def _examples(found: WhyNot, shown: int) -> Iterator[str]:
    """What was dropped, of groups and of rows in an order."""
    for step in found.steps:
        told: set[str] = set()
        for reason in step.reasons:
            for each in reason.examples:
                line = _example(step, each)
                if line not in told and len(told) < shown:
                    told.add(line)
                    yield line


def _example(step: StepLoss, example: dict[str, Any]) -> str:
    if "rank" in example:
        return f"row {example['rid']} is number {example['rank']:,} in the order of '{step.step}'"
    masked = example.get("masked", ())
    group, values = (
        ", ".join(f"{name} = {MASK if name in masked else _value(value)}" for name, value in example[part].items())
        for part in ("group", "values")
    )
    told = f"row {example['rid']} is in the group {group or 'of all rows'} of '{step.step}'"
    return f"{told}, which has {values}" if values else told


def _value(value: Any) -> str:
    from lineage_cli.tables import NULL, safe
    from lineage_cli.values import json_document

    plain = json_document(value)
    return NULL if plain is None else safe(str(plain))


def _arrivals(found: WhyNot, shown: int) -> Iterator[str]:
    where = f" (merged at '{found.merging[0]}')" if len(found.merging) == 1 else ""
    for each in found.arrivals[:shown]:
        into = ", ".join(map(str, each.into[:shown]))
        more = each.more + max(0, len(each.into) - shown)
        rows = "rows" if len(each.into) > 1 or more else "row"
        others = (
            f", together with {_row_count(each.others).replace(' row', ' other row')}{where}" if each.others else ""
        )
        yield f"row {each.rid} is in {rows} {into}{f' and {more:,} more' if more else ''} of {found.to}{others}"
    left = found.reached - min(len(found.arrivals), shown)
    if left and found.arrivals:
        yield f"… and {left:,} more that arrive"
