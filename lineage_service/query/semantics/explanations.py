"""Answers of `backward` with the semantics why and how: witnesses, polynomials, and the values they evaluate to."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.answer import Answer, AnswerPart
from lineage_service.query.answer_shape import EvaluationRequest, Removed
from lineage_service.query.changed_files import files_holding, refuse_changed
from lineage_service.query.lineage_graph import Place
from lineage_service.query.masks import Masked
from lineage_service.query.predicate_gate import checked_predicate
from lineage_service.query.selection import Selection
from lineage_service.query.semantics.derivations import Derivations
from lineage_service.query.semantics.polynomial import (
    BOOLEAN,
    COUNT,
    INFINITE,
    MIN_COST,
    TRUST,
    Polynomial,
    PolynomialTooLarge,
    Row,
)
from lineage_service.query.semantics.survival_check import SurvivalCheck
from lineage_service.query.walk_sql import Start
from lineage_service.store.dataset_names import without_readers
from lineage_service.store.version_scan import RID

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.query.questions import Questions

MOST_ROWS = 100_000  # start rows per question
MOST_WITNESSES = 200_000
MOST_TEXT = 20_000_000  # characters of one polynomial


def explain_rows(
    ask: Questions,
    dataset: str,
    to: Sequence[str] | None,
    selection: Selection,
    semantics: str,
    evaluating: EvaluationRequest,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
) -> Answer:
    """Witnesses (why), polynomials (how) or their values for rows of a dataset."""
    evaluating.check(semantics)
    if not selection.is_specified:
        raise QuestionError("say which rows to start from: rid, key, where or all")
    found = ask.find(dataset)
    derivations = Derivations(ask, found, to, semantics)
    rids = _start_rids(ask, found, ask.start(found, selection))
    shown = rids if semantics == "why" or limit is None else rids[:limit]
    polynomials = derivations.polynomials(shown)
    if semantics == "why":
        answer = _witness_answer(polynomials, list(derivations.wanted.values()), limit)
    elif evaluating.into is None:
        answer = _polynomial_answer(polynomials)
    else:
        answer = _evaluation_answer(ask, derivations, polynomials, evaluating)
    if semantics == "how" and limit is not None:
        answer.parts[0].remaining = max(0, len(rids) - limit)
    answer.notes += derivations.notes
    _note_absence(answer, derivations)
    if found.role == "source" and not derivations.wanted and to is None:
        answer.notes.append(f"'{found.full_name}' is a source that was read from files: nothing is behind it")
    return answer if columns is None else _select_columns(answer, columns)


def _start_rids(ask: Questions, dataset: DatasetRecord, start: Start) -> list[int]:
    if start.rids is not None:
        return list(start.rids)
    if start.table is not None:
        rids = ask.engine.ids(f"SELECT b FROM {start.table} ORDER BY b LIMIT {MOST_ROWS + 1}")
        ask.engine.drop(start.table)
    else:
        rids = ask.engine.ids(f"SELECT b FROM ({ask.scan(dataset).all_rids()}) ORDER BY b LIMIT {MOST_ROWS + 1}")
    if len(rids) > MOST_ROWS:
        raise QuestionError(
            f"these semantics can be asked for at most {MOST_ROWS:,} rows at once", hint="start from fewer rows"
        )
    return rids


def _witness_answer(polynomials: Mapping[int, Polynomial], names: Sequence[str], limit: int | None) -> Answer:
    """One row per witness: the output row, the witness as text, and its rids in each dataset."""
    found: list[tuple[int, frozenset[Row]]] = []
    for rid, polynomial in polynomials.items():
        try:
            found += [(rid, witness) for witness in polynomial.witnesses(MOST_WITNESSES - len(found))]
        except PolynomialTooLarge:
            raise QuestionError(
                f"these rows have more than {MOST_WITNESSES:,} witnesses: their number grows like a product",
                hint="start from fewer rows, reach fewer datasets, or ask with semantics how, which is not multiplied "
                "out",
            ) from None
    shown = found if limit is None else found[:limit]

    def table() -> pa.Table:
        import pyarrow as pa

        columns = {
            "out_rid": pa.array([rid for rid, _ in shown], pa.int64()),
            "witness": pa.array([_witness_text(witness) for _, witness in shown], pa.string()),
        }
        for name in names:
            rids = [sorted(row.rid for row in witness if row.dataset == name) for _, witness in shown]
            columns[_unused_name(name, columns)] = pa.array(rids, pa.list_(pa.int64()))
        return pa.table(columns)

    answer = _answer(table())
    if limit is not None:
        answer.parts[0].remaining = max(0, len(found) - limit)
    return answer


def _unused_name(name: str, taken: Iterable[str]) -> str:
    return f"{name}_1" if name in taken else name


def _witness_text(witness: frozenset[Row]) -> str:
    rows = sorted(witness, key=lambda row: (row.dataset, row.rid))
    return "(" + ", ".join(map(str, rows)) + ")"


def _polynomial_answer(polynomials: Mapping[int, Polynomial]) -> Answer:
    import pyarrow as pa

    try:
        texts = [each.text(MOST_TEXT) for each in polynomials.values()]
    except PolynomialTooLarge:
        raise QuestionError(
            f"a polynomial takes more than {MOST_TEXT:,} characters", hint="ask for its value instead: evaluate"
        ) from None
    trees = [json.dumps(each.to_json(), ensure_ascii=False) for each in polynomials.values()]
    return _answer(
        pa.table(
            {
                "out_rid": pa.array(list(polynomials), pa.int64()),
                "how": pa.array(texts, pa.string()),
                "polynomial": pa.ExtensionArray.from_storage(pa.json_(), pa.array(trees, pa.string())),
            }
        )
    )


def _answer(table: pa.Table) -> Answer:
    def open_() -> pa.RecordBatchReader:
        return table.to_reader()

    return Answer([AnswerPart(list(table.column_names), open_)], "records")


def _select_columns(answer: Answer, columns: Sequence[str]) -> Answer:
    (part,) = answer.parts
    unknown = [name for name in columns if name not in part.columns]
    if unknown:
        raise QuestionError(
            f"unknown column '{unknown[0]}'; columns here: {join_names(part.columns)}",
            hint=did_you_mean(unknown[0], part.columns),
        )
    before = part.open

    def open_() -> pa.RecordBatchReader:
        return before().read_all().select(list(columns)).to_reader()

    hidden = tuple(name for name in part.masked if name in columns)
    answer.parts = [AnswerPart(list(columns), open_, remaining=part.remaining, masked=hidden)]
    return answer


def _note_absence(answer: Answer, derivations: Derivations) -> None:
    for each in derivations.absent:
        answer.absence.append(each.name)
        answer.notes.append(f"'{each.full_name}' has no rows in '{derivations.start.full_name}': it only influences it")


# --- evaluations --------------------------------------------------------------------------------------------------


def _evaluation_answer(
    ask: Questions, derivations: Derivations, polynomials: Mapping[int, Polynomial], evaluating: EvaluationRequest
) -> Answer:
    import pyarrow as pa

    rows = {row for each in polynomials.values() for row in each.rows()}
    name, values = _evaluate_polynomials(ask, derivations, polynomials, rows, evaluating)
    if name == "count" and any(value >= 2**63 for value in values):
        column = pa.array([str(value) for value in values], pa.string())
    else:
        kinds = {"count": pa.int64(), "survives": pa.bool_()}
        column = pa.array(values, kinds.get(name, pa.float64()))
    return _answer(pa.table({"out_rid": pa.array(list(polynomials), pa.int64()), name: column}))


def _evaluate_polynomials(
    ask: Questions,
    derivations: Derivations,
    polynomials: Mapping[int, Polynomial],
    rows: set[Row],
    evaluating: EvaluationRequest,
) -> tuple[str, list[Any]]:
    values: list[Any]
    match evaluating.into:
        case "count":
            return "count", [each.evaluate(COUNT, lambda _: 1) for each in polynomials.values()]
        case "boolean":
            cut = ask.cuts.notes(derivations.order)
            if cut:
                raise QuestionError(f"whether rows survive the loss of others cannot be determined: {cut[0]}")
            gone = _removed_rids(ask, derivations, evaluating.without, reveal=evaluating.reveal)
            SurvivalCheck(derivations, _places_losing_rows(ask, derivations, gone)).refuse_unsure()
            lost = {derivations.variable(place, rid) for place, rids in gone.items() for rid in rids}
            return "survives", [each.evaluate(BOOLEAN, lambda row: row not in lost) for each in polynomials.values()]
        case "min-cost":
            cost = _weights(ask, derivations, rows, evaluating, 0.0 if evaluating.cost else 1.0, "cost")
            values = [each.evaluate(MIN_COST, cost.__getitem__) for each in polynomials.values()]
            return "min_cost", [None if value == INFINITE else value for value in values]
        case _:
            trust = _weights(ask, derivations, rows, evaluating, 1.0, "trust")
            return "trust", [each.evaluate(TRUST, trust.__getitem__) for each in polynomials.values()]


def _place(derivations: Derivations, name: str, what: str, *, influencing: bool = False) -> Place:
    """The place of a dataset by name: one with rows that contribute, under whatever name they were read. With
    `influencing`, also one that influences only by absence.
    """
    known = dict(derivations.wanted)
    for place in derivations.known_as:
        known.setdefault(place, derivations.ask.graph.datasets_at(place)[0].name)
    if influencing:
        known |= {
            place: datasets[0].name
            for place in derivations.influencing()
            if (datasets := derivations.ask.graph.datasets_at(place))
        }
    elif name in derivations.wanted.values():  # the name in the polynomials
        known = dict(derivations.wanted)
    records = {place: derivations.ask.graph.datasets_at(place)[0] for place in known}
    called, _, run = name.partition("@")
    matches = [each for place, each in records.items() if known[place] == name] or [
        each for each in records.values() if called in (each.name, each.full_name) and each.run_id.startswith(run)
    ]
    start = derivations.start
    own = [each for each in matches if (each.run_id, each.workflow) == (start.run_id, start.workflow)]
    matches = derivations.ask.targets.latest_of_same_rows(own or without_readers(matches))
    derivations.ask.targets.refuse_several(name, matches)
    if matches:
        return next(place for place, each in records.items() if each is matches[0])
    reached = list(dict.fromkeys(known.values()))
    raise QuestionError(
        f"{what}: '{name}' is none of the datasets that are reached; reached: {join_names(reached)}",
        hint=did_you_mean(name, reached),
    )


def _places_losing_rows(ask: Questions, derivations: Derivations, gone: Mapping[Place, set[int]]) -> set[Place]:
    """The places that lose rows: the named ones, and those that share the removed rows."""
    import numpy as np

    found = {place for place, rids in gone.items() if rids}
    for place in [*derivations.order, *derivations.influencing()]:
        for named in [each for each in gone if each != place]:
            shared = ask.graph.shared_rows(named, place) if ask.graph.datasets_at(place) else None
            if shared is not None and len(shared.translate(np.array(sorted(gone[named]), np.int64))):
                found.add(place)
    return found


def _removed_rids(
    ask: Questions, derivations: Derivations, without: Mapping[str, Removed], *, reveal: bool
) -> dict[Place, set[int]]:
    """The removed rids by place."""
    found: dict[Place, set[int]] = {}
    for name, which in without.items():
        place = _place(derivations, name, "without", influencing=True)
        dataset = ask.graph.datasets_at(place)[0]
        if isinstance(which, str):
            start = ask.start(dataset, Selection.of(None, None, which, False, reveal))
        else:
            start = ask.start(
                dataset, Selection.of(which if isinstance(which, int) else tuple(which), None, None, False)
            )
        rids = start.rids if start.table is None else ask.engine.ids(f"SELECT b FROM {start.table}")
        found.setdefault(place, set()).update(rids or ())
    return found


def _weights(
    ask: Questions,
    derivations: Derivations,
    rows: set[Row],
    evaluating: EvaluationRequest,
    default: float,
    what: str,
) -> dict[Row, float]:
    """A number per row: the value of its dataset's expression, otherwise the default. The dataset may be any that has
    read the row.
    """
    weights = dict.fromkeys(rows, default)
    given: dict[Row, str] = {}
    for name, expression in (evaluating.cost if what == "cost" else evaluating.trust).items():
        place = _place(derivations, name, what)
        dataset = ask.graph.datasets_at(place)[0]
        shown = derivations.wanted.get(place, dataset.full_name)
        at = derivations.variables_at(place, rows)
        masked = ask.masks.over(dataset, reveal=evaluating.reveal)
        for rid, value in _evaluate_expression(ask, dataset, sorted(at), str(expression), what, masked):
            row, weight = at[rid], _require_valid_weight(value, what, shown)
            if row in given and weights[row] != weight:
                raise QuestionError(
                    f"'{given[row]}' and '{name}' give the row {row} a different {what}: both have read it",
                    hint=f"give a {what} for one of them",
                )
            weights[row], given[row] = weight, name
    return weights


def _require_valid_weight(value: float | None, what: str, dataset: str) -> float:
    if value is None or math.isnan(value):
        raise QuestionError(f"the {what} of a row of '{dataset}' is null or NaN", hint=f"use coalesce in the {what}")
    if what == "cost" and value < 0:
        raise QuestionError(f"the cost of a row of '{dataset}' is negative")
    if what == "trust" and not 0 <= value <= 1:
        raise QuestionError(f"the trust of a row of '{dataset}' is not between 0 and 1")
    return value


def _evaluate_expression(
    ask: Questions, dataset: DatasetRecord, rids: Sequence[int], expression: str, what: str, masked: Masked
) -> list[tuple[int, float | None]]:
    if not rids:
        return []
    import pyarrow as pa

    scan = ask.scan(dataset)
    held = files_holding(scan, pa.array(sorted(set(rids)), pa.int64()))
    refuse_changed(dataset, scan, held, held)
    names = [each.name for each in scan.version.columns]
    value = checked_predicate(expression, [*names, RID], what, masked)
    ask.session.allow(scan.read)
    positions = [position for rid in rids if (position := scan.position(rid)) is not None]
    rows = scan.nan_safe(scan.select_positions(positions), intervals=True)
    found = ask.session.values(f"SELECT {RID}, CAST({value} AS DOUBLE) FROM ({rows}) rows_asked")
    return [(rid, number) for rid, number in found]
