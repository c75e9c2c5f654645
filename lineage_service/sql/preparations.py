"""Finds the rows and groups that a workflow prepared for its declared questions, and builds SQL over their files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lineage_catalog.reader import Stamp
from lineage_catalog.records import DatasetRecord, PreparedRecord

from lineage_service.capture.workload import DeclaredQuestion
from lineage_service.equivalence.merged_measures import measure_sql
from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.errors import NotFound, QuestionError, did_you_mean, join_names
from lineage_service.plan.expressions import Expression
from lineage_service.plan.value_disclosure import disclosed_columns
from lineage_service.query.home_files import index_files, index_scan
from lineage_service.query.lineage_graph import Place
from lineage_service.query.query_engine import held_name
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.sql.answer_limits import unique_column_names
from lineage_service.store.dataset_names import DatasetName, find_run
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID

HELD_GROUPS = 200_000  # up to this many groups are held in memory after the first use


@dataclass(frozen=True)
class Prepared:
    """What a run prepared for a declared question."""

    record: PreparedRecord
    question: DeclaredQuestion
    body: dict[str, Any]
    near: DatasetRecord
    far: tuple[DatasetRecord, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the far rows that are stored."""
        return list(self.body.get("columns", ()))

    @property
    def exposed_columns(self) -> set[str]:
        """The columns of far rows that are visible in prepared groups, in lower case. Counts of distinct values show
        none.
        """
        texts = [text for _, text in self.question.keys]
        texts += [each.argument for each in self.question.measures if each.argument and each.function != "count"]
        trees = [Expression(text).tree for text in texts]
        # A count restricted to some of the values discloses them.
        trees += [Expression(each.text).tree for each in self.question.measures if each.function == "count"]
        return {each.parts[0].name.lower() for tree in trees for each in disclosed_columns(tree).by_value}

    def refuse_missing(self) -> None:
        if "missing" in self.body:
            raise QuestionError(
                f"nothing is prepared for '{self.question.name}' in run '{self.record.run_id}': {self.body['missing']}",
                hint="run the workflow with --capture auto",
            )


class Preparations:
    """The prepared questions of a home, cached by run."""

    def __init__(self, ask: Questions) -> None:
        self.ask = ask
        self._runs: dict[str, list[Prepared]] = {}
        self._found: dict[str, Prepared] = {}
        self._stamp: Stamp | None = None

    def of_run(self, run_id: str) -> list[Prepared]:
        """The preparations of a run that cover all ways between their datasets."""
        return [each for each in self._of_run(run_id) if self._is_whole(each)]

    def _of_run(self, run_id: str) -> list[Prepared]:
        if run_id not in self._runs:
            self.ask.graph.hops(run_id)  # finishes pending lineage first
            self._runs[run_id] = [self._read(each) for each in self.ask.reader.prepared_questions(run_id)]
        return self._runs[run_id]

    def _is_whole(self, prepared: Prepared) -> bool:
        """Whether no way over other runs, or over a source that read the same files, adds rows to it."""
        if prepared.question.kind == "pairs" or self.ask.graph.is_self_contained(prepared.near.run_id):
            return True
        begin, direction = Place(prepared.near.run_id, prepared.near.space), prepared.question.direction
        names = [each.qualified_name for each in prepared.far]
        walked = self.ask.targets.walk_all(begin, direction, names, pruned=True)
        places = [Place(each.run_id, each.space) for each in prepared.far]
        return all(
            way.hop is not None
            for place in places
            for way in self.ask.unkept.ways_toward(walked, place, direction, absence=False)
        )

    def _read(self, record: PreparedRecord) -> Prepared:
        body = json.loads(record.body)
        question = DeclaredQuestion.from_json(body["question"])
        datasets = {each.space: each for each in self.ask.graph.datasets(record.run_id)}
        return Prepared(record, question, body, datasets[question.near], tuple(datasets[far] for far in question.far))

    def find(self, text: str) -> Prepared:
        """The prepared question with this name, in the named run or in the latest run of the one workflow that declares
        it.
        """
        stamp = self.ask.reader.stamp()
        if stamp != self._stamp:
            self._stamp, self._found = stamp, {}
        if text not in self._found:
            self._found[text] = self._find(text)
        return self._found[text]

    def _find(self, text: str) -> Prepared:
        asked = DatasetName.parse(text)
        reader, home = self.ask.reader, str(self.ask.home.path)
        if asked.run is not None:
            runs = [find_run(reader, asked.run, home)]
        else:
            flows = [asked.workflow] if asked.workflow is not None else reader.workflows()
            runs = [run for flow in flows if (run := reader.latest_run(flow)) is not None]
        everything = [each for run in runs for each in self._of_run(run.id)]
        found = [each for each in everything if each.question.name == asked.name]
        if len(found) > 1:
            names = [f"{each.near.workflow}.{asked.name}" for each in found]
            raise QuestionError(
                f"several workflows declare '{asked.name}': {join_names(names)}", hint="name the workflow"
            )
        if not found:
            names = [each.question.name for each in everything]
            where = f"run '{asked.run}'" if asked.run else "the latest runs"
            raise NotFound(
                f"no declared question '{text}' in {where} of the home '{home}'; declared: {join_names(names)}",
                hint=did_you_mean(asked.name, names)
                or "declare it under `lineage: workload:`, and run the workflow (a refresh prepares nothing)",
            )
        if not self._is_whole(found[0]):
            far = join_names([each.full_name for each in found[0].far])
            raise QuestionError(
                f"'{text}' was prepared from run '{found[0].record.run_id}' alone, and rows of {far} are reached over "
                "other runs too",
                hint=f"ask with {found[0].question.direction}(…)",
            )
        return found[0]


def find_covering(
    candidates: Sequence[Prepared], near: DatasetRecord, to: str, direction: str, read: frozenset[str] | None
) -> Prepared | None:
    """Rows prepared for a question between these datasets that contain every column it reads."""
    asked = DatasetName.parse(to)
    for each in candidates:
        question = each.question
        fits = question.kind == "rows" and question.where is None and "missing" not in each.body
        if not fits or question.direction != direction or question.near != near.space or not asked.matches(each.far[0]):
            continue
        carried = {name.lower() for name in each.columns}
        everything = {name.lower() for name in each.body["all"]}
        if carried == everything or (read is not None and read & everything <= carried):
            return each
    return None


def find_groupings(candidates: Sequence[Prepared], near: DatasetRecord, to: str, direction: str) -> list[Prepared]:
    """Groups prepared between two datasets whose expressions mean the same in DuckDB."""
    asked = DatasetName.parse(to)
    return [
        each
        for each in candidates
        if each.question.kind == "groups" and each.question.where is None and "missing" not in each.body
        and each.question.direction == direction and each.question.near == near.space and asked.matches(each.far[0])
    ]  # fmt: skip


def parts_query(prepared: Prepared, scan: str, start: Start, name: str) -> str | None:
    """The partial measures of groups, for a question that combines them itself; None if they are not additive."""
    one = start.rids is not None and len(start.rids) == 1
    additive = [each for each in prepared.question.measures if each.function in ("sum", "count") and not each.distinct]
    if not one and additive and not prepared.body["once"]:
        return None
    return f"SELECT {_parts(prepared, name)} FROM {_filter_by_start(scan, start)}"


def empty_parts(prepared: Prepared, name: str) -> str:
    """The same columns without rows. Reads no file."""
    question, types = prepared.question, prepared.body["types"]
    keys = [f"NULL::{types[text]} AS k{number}" for number, (_, text) in enumerate(question.keys)]
    measures = []
    for number, each in enumerate(question.measures):
        kind = "BIGINT" if each.argument is None else types[each.argument]
        if each.distinct:
            kind = f"{kind}[]"
        elif each.function == "count":
            kind = "BIGINT"
        elif each.function in ("sum", "avg"):
            digits = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", kind)
            kind = (
                f"DECIMAL(38,{digits[1]})" if digits else "DOUBLE" if kind in ("FLOAT", "DOUBLE") else "DECIMAL(38,0)"
            )
        measures.append(f"NULL::{kind} AS m{number}")
    return f"SELECT {_parts(prepared, name)} FROM (SELECT {', '.join([*keys, *measures])}) WHERE false"


def _parts(prepared: Prepared, name: str) -> str:
    """Keys and measures under names that no question uses. Date parts have DuckDB's 64-bit type."""
    question, types = prepared.question, prepared.body["types"]
    keys = []
    for number, (_, text) in enumerate(question.keys):
        part = "(" in text and types[text] == "INTEGER"
        keys.append(f"{f'CAST(k{number} AS BIGINT)' if part else f'k{number}'} AS {name}_k{number}")
    measures = [f"m{number} AS {name}_m{number}" for number in range(len(question.measures))]
    return ", ".join([*keys, *measures])


def covered_query(prepared: Prepared, path: str, start: Start, types: Sequence[tuple[str, str]]) -> str:
    """Far rows of near rows: `_rid` and the stored columns, in the dataset's types."""
    kinds = dict(types)
    shown = [f"far AS {RID}"]
    for number, name in enumerate(prepared.columns):
        kind = duckdb_type(kinds[name])
        value = f"c{number}" if kind is None or kinds[name] == "string" else f"CAST(c{number} AS {kind})"
        shown.append(f"{value} AS {column(name)}")
    several = start.rids is None or len(start.rids) > 1
    return f"SELECT {'DISTINCT ' if several else ''}{', '.join(shown)} FROM {_rows_of_start(path, start)}"


def held_groups(prepared: Prepared, path: str) -> str | None:
    """The query for all prepared groups, if they are few enough to be held in memory."""
    return f"SELECT * FROM {_scan(path)}" if prepared.record.rows <= HELD_GROUPS else None


def grouped_query(prepared: Prepared, scan: str, start: Start) -> str:
    """Groups of far rows of near rows, with their measures. `scan` reads the prepared groups."""
    question, types = prepared.question, prepared.body["types"]
    one = start.rids is not None and len(start.rids) == 1
    additive = [each for each in question.measures if each.function in ("sum", "avg", "count") and not each.distinct]
    if not one and additive and not prepared.body["once"]:
        raise QuestionError(
            f"'{question.name}' was prepared row by row, and rows of '{prepared.near.full_name}' share rows of "
            f"'{prepared.far[0].full_name}': their measures do not add up",
            hint="start from one row, or declare the question without by and measures too",
        )
    keys = [f"k{number} AS {column(name)}" for number, (name, _) in enumerate(question.keys)]
    one = one and bool(keys)  # without keys there is always one group, even for no rows
    measures = [
        f"{measure_sql(each, f'm{number}', types.get(each.argument), one=one)} AS {column(each.name)}"
        for number, each in enumerate(question.measures)
    ]
    group = "" if one else f" GROUP BY {', '.join(f'k{number}' for number in range(len(keys)))}" if keys else ""
    return f"SELECT {', '.join([*keys, *measures])} FROM {_filter_by_start(scan, start)}{group}"


def witness_query(prepared: Prepared, path: str, start: Start) -> str:
    """Near rows and, in a column per dataset, the row ids that jointly produced them."""
    met = witness_columns(prepared)[1:]
    shown = [f"w{number} AS {column(name)}" for number, name in enumerate(met)]
    return f"SELECT {', '.join(['near AS out_rid', *shown])} FROM {_rows_of_start(path, start)}"


def witness_columns(prepared: Prepared) -> list[str]:
    names = {far.space: far.name for far in prepared.far}
    return ["out_rid", *unique_column_names([names[space] for space in prepared.body["met"]])]


def covered_ids(path: str, start: Start) -> str:
    """The far row ids, distinct and sorted."""
    return f"SELECT DISTINCT far FROM {_rows_of_start(path, start)} ORDER BY far"


def selected_ids(path: str, start: Start, direction: str) -> str:
    """The far row ids of prepared pairs, distinct and sorted."""
    near, far = ("a", "b") if direction == "backward" else ("b", "a")
    rows = f"(SELECT {near} AS near, {far} AS far FROM {index_scan(path, near, start.rids)})"
    return f"SELECT DISTINCT far FROM {_filter_by_start(rows, start)} ORDER BY far"


def _rows_of_start(path: str, start: Start) -> str:
    """The rows of a prepared file that belong to near rows."""
    return _filter_by_start(index_scan(path, "near", start.rids), start)


def _scan(path: str) -> str:
    return index_scan(path)


def _filter_by_start(scan: str, start: Start) -> str:
    if start.rids is not None:
        if len(start.rids) == 1:
            return f"{scan} WHERE near = {start.rids[0]}"
        return f"{scan} WHERE near IN ({', '.join(map(str, start.rids)) or 'NULL'})"
    if start.table is not None:
        return f"{scan} p SEMI JOIN {start.table} s ON s.b = p.near"
    return scan


def groups_scan(prepared: Prepared, path: str) -> tuple[str, tuple[str, ...]]:
    """The scan of prepared groups, and the queries of the tables it needs in memory."""
    held = held_groups(prepared, path)
    return (_scan(path), ()) if held is None else (held_name(held), (held,))


def files_of(path: str) -> tuple[str, ...]:
    """The files that such a scan reads, under every spelling that must be allowed."""
    found = index_files(path)
    return tuple(found if path.endswith(".parquet") else [*found, f"{path}/*.parquet"])
