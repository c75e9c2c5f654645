"""Why rows of a dataset are not in another: the answer, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_service.query.answer import Answer, records

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ReasonCount:
    """A reason, and the rows that end for it. Rows may have several.

    kind: condition, no_partner, partner_lost, has_partner, no_equal_row, equal_row, cut_off, nothing_to_explode,
    generates_nothing, not_read · step: where a partner was lost · rids: the first of the rows; `more` are not shown
    examples: of a dropped group its keys and what the predicate reads, with the names of those that are `masked`; of a
    row that was cut off its rank
    """

    kind: str
    text: str
    rows: int
    rids: tuple[int, ...]
    more: int
    step: str | None = None
    examples: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"kind": self.kind, "reason": self.text, "rows": self.rows}
        if self.step is not None:
            body["step"] = self.step
        body |= {"rids": list(self.rids), "more": self.more}
        return body | ({"examples": list(self.examples)} if self.examples else {})


@dataclass(frozen=True)
class StepLoss:
    """One input of a step on the way.

    rows_in: of the rows asked for, those that come in; None where nobody can tell · ended: those that do not go out
    lost: of these, the rows that do not arrive, and for which this is the last of their ways · merges: whether the step
    makes one row of several
    """

    step: str
    operation: str
    input: str
    rows_in: int | None
    ended: int
    lost: int
    merges: bool
    reasons: tuple[ReasonCount, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "operation": self.operation,
            "input": self.input,
            "rows_in": self.rows_in,
            "ended": self.ended,
            "lost": self.lost,
            "merges": self.merges,
            "reasons": [each.to_json() for each in self.reasons],
        }


@dataclass(frozen=True)
class Arrival:
    """A row that arrives: the rows of the output that it is in; with how many other rows of its dataset in the first
    of them."""

    rid: int
    into: tuple[int, ...]
    more: int
    others: int

    def to_json(self) -> dict[str, Any]:
        return {"rid": self.rid, "into": list(self.into), "more": self.more, "others": self.others}


@dataclass(repr=False)
class WhyNot:
    """Of `asked` rows of `source`, `reached` are in `to`; `peers` only as rows that a window read for
    others; `lost` are not. `steps` tell where the ways of those end that have not arrived as themselves. `merging` are
    the steps on the way that make one row of several; `spark` says whether steps had to be evaluated again."""

    source: str
    to: str
    run_id: str
    asked: int
    reached: int
    peers: int
    lost: int
    steps: list[StepLoss]
    arrivals: list[Arrival]
    merging: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spark: bool = False
    rows: pa.Table | None = None  # _rid, step, reason of each row that is lost, where that was asked for
    remaining: int = 0

    def __repr__(self) -> str:
        counts = f"{self.asked} asked, {self.reached} reached, {self.lost} lost"
        return f"<WhyNot: {self.source} to {self.to}: {counts}>"

    def __len__(self) -> int:
        """How many steps lose rows."""
        return len(self.steps)

    def __iter__(self) -> Iterator[StepLoss]:
        return iter(self.steps)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "source": self.source,
            "to": self.to,
            "run_id": self.run_id,
            "asked": self.asked,
            "reached": self.reached,
            "peers": self.peers,
            "lost": self.lost,
            "spark": self.spark,
            "merging": self.merging,
            "steps": [each.to_json() for each in self.steps],
            "arrivals": [each.to_json() for each in self.arrivals],
            "more_arrivals": self.reached - len(self.arrivals),
        }
        if self.rows is not None:
            listed = [
                {"rid": row["_rid"], "step": row["step"], "reason": row["reason"]} for row in self.rows.to_pylist()
            ]
            body |= {"rows": listed, "more_rows": self.remaining}
        return body

    def answer(self) -> Answer:
        """As rows: a line per step and reason; or, where they were asked for, the rows that are lost."""
        if self.rows is not None:
            columns = ["_rid", "step", "reason"]
            found = records(columns, [tuple(row[name] for name in columns) for row in self.rows.to_pylist()])
            found.parts[0].remaining = self.remaining
        else:
            found = records(list(COLUMNS), [line for step in self.steps for line in _lines(step)])
        found.notes += self.notes
        return found

    def arrow(self) -> pa.Table:
        return self.answer().arrow()


COLUMNS = ("step", "operation", "input", "rows_in", "ended", "lost", "reason", "rows")


def _lines(step: StepLoss) -> list[tuple[Any, ...]]:
    first = (step.step, step.operation, step.input, step.rows_in, step.ended, step.lost)
    if not step.reasons:
        return [(*first, None, None)]
    return [(*first, reason.text, reason.rows) for reason in step.reasons]
