"""The result of `why-not`: the losses step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_service.query.answer import Answer, records

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ReasonCount:
    """A reason, and the rows that end for it. Rows may have several reasons.

    kind: condition, no_partner, partner_lost, has_partner, no_equal_row, equal_row, cut_off, nothing_to_explode,
    generates_nothing, not_read
    step: the step at which a partner was lost
    rids: the first of the rows; `more` are not shown
    examples: for a dropped group, its keys and the values that the predicate reads, with the names of the `masked`
    ones; for a row that was cut off, its rank
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

    rows_in: the requested rows that enter; None if unknown
    ended: the rows that do not leave the step
    lost: those of them that do not arrive and reach no later step
    merges: whether the step merges several rows into one
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
    """A row that arrives: the output rows that contain it, and how many other rows of its dataset the first of them
    contains.
    """

    rid: int
    into: tuple[int, ...]
    more: int
    others: int

    def to_json(self) -> dict[str, Any]:
        return {"rid": self.rid, "into": list(self.into), "more": self.more, "others": self.others}


@dataclass(repr=False)
class WhyNot:
    """The answer: of `asked` rows of `source`, `reached` are in `to` and `lost` are not; `peers` are there only because
    a window read them.

    `steps` say where rows end that do not arrive as themselves. `merging` are the steps on the way that merge several
    rows into one. `spark` says whether steps were evaluated again.
    """

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
    rows: pa.Table | None = None  # _rid, step and reason of each lost row, if requested
    remaining: int = 0

    def __repr__(self) -> str:
        counts = f"{self.asked} asked, {self.reached} reached, {self.lost} lost"
        return f"<WhyNot: {self.source} to {self.to}: {counts}>"

    def __len__(self) -> int:
        """The number of steps that lose rows."""
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
        """The answer as rows: one line per step and reason or, if requested, one line per lost row."""
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
