"""The access report (GDPR Art. 15): everything held about a person and derived from it. docs/access.md describes its
format.

Found by lineage over every held run. The person's own data is shown. Of rows that include other persons, only the
columns that all of them share are shown, and nothing if they are few. No report is returned before its entry is in the
log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.audit.affected_rows import ForwardReach, OtherPersonCounts, OtherPersons, RowsWithRoles
from lineage_service.audit.cases.case_lifecycle import CaseOptions, record_case_answer
from lineage_service.audit.log.log_transactions import LogEntry, log_transaction
from lineage_service.audit.person_search import SubjectRows, declared_of, key_for_persons, rows_of_subjects
from lineage_service.audit.privacy_declarations import (
    content_of,
    kept_until,
    missing_keys,
    personal_columns,
    privacy_of,
)
from lineage_service.capture.handles import Role
from lineage_service.errors import DamagedFile, LineageError, QuestionError
from lineage_service.query.changed_files import unchanged_start
from lineage_service.query.lineage_graph import Place
from lineage_service.query.masks import NONE, shown_columns
from lineage_service.query.open_home import OpenHome
from lineage_service.query.questions import Questions
from lineage_service.query.row_retrieval import select_start_rows
from lineage_service.query.staleness_notes import cut_note
from lineage_service.query.walk_sql import Start
from lineage_service.store.duckdb_engine import column
from lineage_service.store.home_key import HomeKey
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID
from lineage_service.subjects.subject_arguments import Subject

VERSION = 1
MIN_GROUP = 5
NEEDED = ("purpose", "legal_basis", "recipients", "retention_days", "controller", "contact", "authority", "categories")
ROLES = {Role.OWN: "own", Role.PEER: "peer"}

Document = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Access:
    """The report for the person, and notes for the user, such as failed anchors of the log."""

    document: Document
    notes: list[str]

    def __repr__(self) -> str:
        """Shows counts only, so that no personal data appears in a log or a traceback."""
        summary = self.document["summary"]
        return f"<Access: {summary['rows']} rows in {summary['datasets']} datasets>"


def build_access_report(
    home: OpenHome, subjects: Sequence[Subject], case: CaseOptions | None = None, *, min_group: int = MIN_GROUP
) -> Access:
    """The report for one person. `subjects` are the kinds and values that identify them.

    The log entry is written first, in one transaction with the entry of the case.
    """
    if min_group < 2:
        raise QuestionError("min_group must be at least 2: a group has at least two persons")
    given = case or CaseOptions()
    asking, document = home.in_one_snapshot(lambda: _build_in_snapshot(home, subjects, min_group))
    with log_transaction(home, given.who) as writing:
        recipients = sorted({name for each in document["processing"] for name in each["recipients"]})
        record_case_answer(writing, given, recipients=recipients)
        writing.append(
            LogEntry(
                "access",
                given.request,
                {kind: sorted(values) for kind, values in asking.asked.items()},
                sorted({each["dataset"] for each in (*document["data"], *document["influenced"])}),
                document["summary"],
                "done" if document["held"] else "nothing held",
            )
        )
    return Access(document, writing.notes)


def _build_in_snapshot(
    home: OpenHome, subjects: Sequence[Subject], min_group: int
) -> tuple[AccessReportBuilder, Document]:
    asking = AccessReportBuilder(home.questions, key_for_persons(home.questions), subjects, min_group)
    return asking, asking.document()


@dataclass
class AccessReportBuilder:
    """Builds the report for one person."""

    ask: Questions
    key: HomeKey
    subjects: Sequence[Subject]
    min_group: int
    asked: dict[str, set[str]] = field(default_factory=dict)
    _runs: dict[str, RunRecord] = field(default_factory=dict)

    def document(self) -> Document:
        self._runs = {run.id: run for run in self.ask.reader.runs()}
        found = rows_of_subjects(self.ask, self.key, self.subjects)
        self.asked = self._hashes(found)
        reach = ForwardReach(self.ask)
        reach.follow(self._starts(found))
        data = [self._data_entry(places, reach) for places in self._places_by_version(reach, absence=False)]
        influenced = [
            self._influenced_entry(place, reach) for (place, *_) in self._places_by_version(reach, absence=True)
        ]
        unsearched = [(each.dataset.run_id, each.dataset.full_name, each.reason) for each in found.unsearched]
        unsearched += [*self._sources_of_failed_runs(), *self._sources_of_expired_runs()]
        touched = {run for each in (*data, *influenced) for run in each["runs"]}
        return {
            "document": "access",
            "version": VERSION,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "subject": [{"kind": each.kind, "value": each.value} for each in self.subjects],
            "min_group": self.min_group,
            "held": bool(data),
            "complete": not unsearched and not reach.blind,
            "summary": {
                "datasets": len(data),
                "rows": sum(each["count"] for each in data),
                "alone": sum(each["alone"] for each in data),
                "influenced": len(influenced),
                "not_looked_into": len(unsearched) + len(reach.blind),
            },
            "data": data,
            "influenced": influenced,
            "processing": self._processing(touched),
            "not_looked_into": [
                {"dataset": name, "run": run, "reason": reason} for run, name, reason in (*unsearched, *reach.blind)
            ],
        }

    # --- the person's own rows --------------------------------------------------------------------------------

    def _sources_of_failed_runs(self) -> list[tuple[str, str, str]]:
        """Sources of runs that failed a check. They hold copies until `gc`, and are not followed further."""
        kinds = {each.kind for each in self.subjects}
        return [
            (run.id, dataset.full_name, "the run failed a check and is kept until `gc` removes it")
            for run in self.ask.reader.runs(status="failed")
            for dataset in self.ask.graph.datasets(run.id)
            if dataset.role == "source" and kinds & {each.kind for each in declared_of(dataset)}
        ]

    def _sources_of_expired_runs(self) -> list[tuple[str, str, str]]:
        """Sources made by runs past their retention. The persons of their rows are no longer known."""
        cut = self.ask.cuts.cut_sources(self._runs)
        return [(each.run_id, each.full_name, cut_note(each, run_id)) for each, run_id in cut]

    def _hashes(self, subject_rows: SubjectRows) -> dict[str, set[str]]:
        """The person's hashes in the log: those that matched, otherwise the hash of the given value."""
        given = {each.kind: {self.key.subject(each.kind, each.value).hex()} for each in self.subjects}
        return given | {kind: set(values) for kind, values in subject_rows.hashes.items()}

    def _starts(self, subject_rows: SubjectRows) -> dict[Place, Ids]:
        """The places of the person's rows: each run that read the version, and the run that made it."""
        rids: dict[str, Ids] = {}
        places: dict[str, set[Place]] = {}
        for each in subject_rows.found:
            version = each.dataset.version_id
            known = rids.get(version)
            rids[version] = each.rids if known is None else np.union1d(known, each.rids)
            places.setdefault(version, set()).add(Place(each.dataset.run_id, each.dataset.space))
        for version, known_places in places.items():
            others = (*self.ask.reader.readers_of([version]), *self.ask.reader.makers_of([version]))
            known_places |= {Place(each.run_id, each.space) for each in others if each.run_id in self._runs}
        return {place: rids[version] for version, known_places in places.items() for place in sorted(known_places)}

    # --- derived rows -----------------------------------------------------------------------------------------

    def _places_by_version(self, reach: ForwardReach, *, absence: bool) -> list[list[Place]]:
        """The places that are datasets, grouped by version. The first place of a group gives its name in the report.

        A row that was made once is reported once, however many runs have read it.
        """
        found: dict[str, list[Place]] = {}
        for place, rows in reach.rows.items():
            datasets = self.ask.graph.datasets_at(place)
            met = rows.of_role(Role.ABSENCE) if absence else _without_absence(rows).rids
            if datasets and len(met):
                found.setdefault(datasets[0].version_id, []).append(place)
        groups = [sorted(places, key=lambda each: (each.space.is_source, each)) for places in found.values()]
        return sorted(
            groups,
            key=lambda each: (not each[0].space.is_source, self._preferred_dataset(each[0]).full_name),
        )

    def _preferred_dataset(self, place: Place) -> DatasetRecord:
        """The dataset record of a place. An output is preferred to a kept step."""
        return min(self.ask.graph.datasets_at(place), key=lambda each: (each.role != "output", each.name))

    def _entry(self, places: Sequence[Place], reach: ForwardReach) -> Document:
        dataset = self._preferred_dataset(places[0])
        run = self._runs[dataset.run_id]
        names = [each.full_name for place in places for each in self.ask.graph.datasets_at(place)]
        way = [
            self._preferred_dataset(each).full_name
            for each in reach.way_to(places[0])
            if self.ask.graph.datasets_at(each)
        ]
        return {
            "dataset": dataset.full_name,
            "role": "query" if run.capture == "query" and dataset.role != "source" else dataset.role,
            "also_known_as": sorted({*names} - {dataset.full_name}),
            "runs": sorted({place.run_id for place in places}),
            "run": dataset.run_id,
            "since": (run.held_since or run.committed_at),
            "way": way,
        }

    def _influenced_entry(self, place: Place, reach: ForwardReach) -> Document:
        entry = self._entry([place], reach)
        return {**entry, "rows": len(reach.rows[place].of_role(Role.ABSENCE)), "by": "absence of a match"}

    def _data_entry(self, places: Sequence[Place], reach: ForwardReach) -> Document:
        dataset, rows = self._preferred_dataset(places[0]), _without_absence(reach.rows[places[0]])
        for place in places[1:]:
            rows = rows.merge(_without_absence(reach.rows[place]))
        personal = personal_columns(self.ask, dataset)
        columns = [
            {"name": each.name, "type": each.type, "personal": each.name.lower() in personal}
            for each in self.ask.scan(dataset).version.columns
        ]
        company = OtherPersons(self.ask, self.key, self.asked).count_by_row(places[0], rows.rids)
        roles = {int(role): role for role in Role}
        rules = {
            rid: self._rule(roles[role], company if isinstance(company, str) else company[rid])
            for rid, role in zip(rows.rids.tolist(), rows.roles.tolist(), strict=True)
        }
        values, unreadable = self._values(dataset, [rid for rid, rule in rules.items() if rule.shows])
        rows_shown = [self._row(rid, rule, values, personal) for rid, rule in rules.items()]
        return {
            **self._entry(places, reach),
            "columns": columns,
            "count": len(rows_shown),
            "alone": sum(rule.about == "alone" for rule in rules.values()),
            "unreadable": unreadable,
            "persons_unknown": company if isinstance(company, str) else None,
            "rows": rows_shown,
        }

    def _rule(self, role: Role, others: OtherPersonCounts | str) -> RowDisclosure:
        """What may be shown of a row. docs/access.md describes the rule."""
        if isinstance(others, str):
            return RowDisclosure(ROLES[role], "unknown", None, None)
        persons = others.all + 1
        if not others.all:
            return RowDisclosure(ROLES[role], "alone", 1, "all")
        if persons < self.min_group:
            return RowDisclosure(ROLES[role], "others", f"fewer than {self.min_group}", None)
        if role is Role.PEER:
            return RowDisclosure("peer", "others", persons, None)  # it is another person's row
        return RowDisclosure("own", "others", persons, "all" if not others.own else "common")

    def _row(self, rid: int, rule: RowDisclosure, values: Mapping[int, Document], personal: set[str]) -> Document:
        shown = values.get(rid)
        if shown is not None and rule.shows == "common":
            shown = {name: value for name, value in shown.items() if name.lower() not in personal}
        return {"rid": rid, "role": rule.role, "about": rule.about, "persons": rule.persons, "values": shown}

    def _values(self, dataset: DatasetRecord, rids: Sequence[int]) -> tuple[dict[int, Document], str | None]:
        """Unmasked rows, because they are the person's own; or the reason why they can no longer be read."""
        if not rids:
            return {}, None
        import pyarrow as pa

        engine, scan = self.ask.engine, self.ask.scan(dataset)
        tables: list[str | None] = []
        try:
            start, notes = unchanged_start(engine, dataset, scan, Start(ids=pa.array(sorted(rids), pa.int64())))
            tables.append(start.table)
            wanted = select_start_rows(engine, dataset, scan, start, None)
            tables.append(wanted.table)
            shown = shown_columns([each.name for each in scan.version.columns], scan, NONE)
            items = [RID, *(f"{value} AS {column(name)}" for name, value in shown.items())]
            rows = engine.stream(f"SELECT {', '.join(items)} FROM ({wanted.query})").read_all().to_pylist()
        except DamagedFile:
            raise
        except LineageError as error:
            return {}, error.problems[0].message
        finally:
            for table in tables:
                if table is not None:
                    engine.drop(table)
        return {int(row.pop(RID)): row for row in rows}, notes[0] if notes else None

    # --- declarations of the workflow files -------------------------------------------------------------------

    def _processing(self, run_ids: Iterable[str]) -> list[Document]:
        """Per workflow, the declarations of its latest run found; retention terms are those of each run."""
        by_flow: dict[str, list[RunRecord]] = {}
        for run_id in sorted(run_ids):
            by_flow.setdefault(self._runs[run_id].workflow, []).append(self._runs[run_id])
        found = []
        for workflow, runs in sorted(by_flow.items()):
            latest = max(runs, key=lambda run: run.committed_at)
            content = content_of(self.ask, latest.id)
            privacy = privacy_of(content)
            origins = {
                name: source["origin"] for name, source in content.get("sources", {}).items() if source.get("origin")
            }
            found.append(
                {
                    "workflow": workflow,
                    "description": content.get("description"),
                    "owner": content.get("owner"),
                    **privacy,
                    "origins": origins,
                    "kept_until": {run.id: kept_until(run, privacy_of(content_of(self.ask, run.id))) for run in runs},
                    "not_said": missing_keys(privacy, NEEDED),
                }
            )
        return found


class RowDisclosure(NamedTuple):
    """What is disclosed of a row. `persons` is a number, words for a few, or None if unknown; `shows` is all, common or
    nothing.
    """

    role: str
    about: str
    persons: int | str | None
    shows: str | None


def _without_absence(rows: RowsWithRoles) -> RowsWithRoles:
    """The rows that hold data, without those influenced only by absence."""
    there = rows.roles != int(Role.ABSENCE)
    return RowsWithRoles(rows.rids[there], rows.roles[there])
