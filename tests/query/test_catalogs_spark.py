"""Lineage over whole catalogs, as Spark makes them: workflows over shared files (globs, renames, CSV and Parquet),
chained, run again, refreshed after files were overwritten, with saved queries among them.

What is inside one run is taken from that run alone, which other tests judge. Here the oracle follows it over runs: a
row of a source is a record of a file in the state in which the run has read it; a source that reads an output is that
output of the run that was the latest then. Every pair of datasets is asked in both directions.
`SMOKE_CATALOGS=20` makes as many catalogs; `SMOKE_SEED` begins at another.
"""

import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.records import DatasetRecord

from lineage_service import Home
from lineage_service.errors import SourceError
from lineage_service.query.lineage_graph import Place
from lineage_service.query.lineage_walk import walk
from lineage_service.query.walk_sql import Start
from tests.query.test_catalogs import asked

CATALOGS = int(os.environ.get("SMOKE_CATALOGS", "1"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))
PATHS = {"parquet": ["p*.parquet", "p1.parquet", "p2.parquet"], "csv": ["c*.csv", "c1.csv", "c2.csv"]}


class Files:
    """The users' files; every record has an id of its own, and keeps it while its file is overwritten."""

    def __init__(self, folder, chance: random.Random) -> None:
        self.folder, self.chance, self.ids, self.states = folder, chance, iter(range(10_000)), {}
        for name in ("p1.parquet", "p2.parquet", "c1.csv", "c2.csv"):
            self.states[name] = []
            self.write(name, [self._record() for _ in range(chance.randint(1, 5))])

    def _record(self) -> tuple[int, int, int]:
        return next(self.ids), self.chance.randint(0, 2), self.chance.randint(0, 9)

    def write(self, name: str, records: list[tuple[int, int, int]]) -> None:
        path = self.folder / name
        if name.endswith(".csv"):
            path.write_text("id,k,v\n" + "".join(f"{id_},{k},{v}\n" for id_, k, v in records))
        else:
            columns = list(zip(*records, strict=True)) or [(), (), ()]
            pq.write_table(pa.table({key: pa.array(of, pa.int64()) for key, of in zip("ikv", columns, strict=True)})
                           .rename_columns(["id", "k", "v"]), path)  # fmt: skip
        self.states[name].append(records)

    def overwrite(self) -> str:
        """Some records of a file go, some come, between those that stay."""
        name = self.chance.choice(sorted(self.states))
        records = [each for each in self.states[name][-1] if self.chance.random() < 0.7]
        records.insert(self.chance.randint(0, len(records)), self._record())
        self.write(name, records)
        return name

    @property
    def now(self) -> dict[str, int]:
        return {name: len(states) for name, states in self.states.items()}

    def records(self, states: dict[str, int]) -> dict[int, tuple[str, int, int]]:
        """Which record of which file each id is, in these states."""
        return {
            record[0]: (name, state, position)
            for name, state in states.items()
            for position, record in enumerate(self.states[name][state - 1])
        }


class Catalog:
    def __init__(self, folder, home: Home, chance: random.Random) -> None:
        self.folder, self.home, self.chance = folder, home, chance
        self.files = Files(folder, chance)
        self.identity: dict[DatasetRecord, dict[int, tuple]] = {}  # per dataset and rid: the row that it is
        self.read_from: dict[tuple[str, str], tuple[str, str]] = {}  # per run and source: the run and its output
        self.outputs: dict[str, dict[str, tuple[str, str]]] = {}  # per workflow: which output each source reads
        self.latest: dict[str, str] = {}

    def write_workflow(self, name: str) -> None:
        chance, sources, reads = self.chance, [], {}
        for index in range(chance.randint(1, 2)):
            path = chance.choice(PATHS[chance.choice(["parquet", "csv"])])
            more = ", options: {header: true}, schema: 'id BIGINT, k BIGINT, v BIGINT'" if "csv" in path else ""
            more += ", rename: {v: w}" if chance.random() < 0.4 else ""
            more += ", snapshot: true" if chance.random() < 0.2 else ""
            sources.append(f"  s{index}: {{path: '{path}'{more}}}")
        for index, other in enumerate(
            chance.sample(sorted(self.outputs), min(len(self.outputs), chance.randint(0, 2)))
        ):
            sources.append(f"  r{index}: {{output: {other}.o}}")
            reads[f"r{index}"] = (other, "o")
        steps, parts = [], []
        for index in range(len(sources) - len(reads)):
            steps.append(f"  - {{name: a{index}, op: aggregate, input: s{index}, by: [k], measures: {{n: count(*)}}}}")
            parts.append(f"a{index}")
        for index in range(len(reads)):
            if chance.random() < 0.5:
                steps.append(f"  - {{name: j{index}, op: join, left: s0, right: r{index}, using: [k]}}")
                steps.append(f"  - {{name: b{index}, op: project, input: j{index}, columns: [k, n]}}")
                parts.append(f"b{index}")
            else:
                parts.append(f"r{index}")
        if len(parts) > 1:
            steps.append(f"  - {{name: u, op: union, inputs: [{', '.join(parts)}]}}")
        last = "u" if len(parts) > 1 else parts[0]
        if chance.random() < 0.5:
            steps.append(f"  - {{name: o, op: aggregate, input: {last}, by: [k], measures: {{n: sum(n)}}}}")
        else:  # rows before a row are behind it too
            steps.append(f"  - {{name: t, op: aggregate, input: {last}, by: [k], measures: {{m: sum(n)}}}}")
            steps.append("  - {name: w, op: window, input: t, order_by: [k], measures: {n: sum(m)}}")
            steps.append("  - {name: o, op: project, input: w, columns: [k, n]}")
        text = ["version: 1", f"name: {name}", "sources:", *sources, "steps:", *steps, "outputs: {o: {}}"]
        (self.folder / f"{name}.yml").write_text("\n".join(text) + "\n")
        self.outputs[name] = reads

    def note(self, name: str, run_id: str) -> None:
        """What a run has read, and which rows its datasets have: files may be overwritten later."""
        for source, (other, output) in self.outputs.get(name, {}).items():
            self.read_from[run_id, source] = self.latest[other], output
        self.latest[name] = run_id
        ask = self.home._open.questions
        for each in ask.graph.datasets(run_id):
            known = [rows for other, rows in self.identity.items() if other.version_id == each.version_id]
            if name not in self.outputs and known:  # a saved query reads what a run has read
                self.identity[each] = known[0]
                continue
            rows = ask.engine.stream(f"SELECT * FROM ({ask.scan(each).select()})").read_all().to_pylist()
            if each.role == "source" and (run_id, each.name) not in self.read_from:
                records = self.files.records(self.files.now)
                self.identity[each] = {row["_rid"]: records[row["id"]] for row in rows}
            else:
                self.identity[each] = {row["_rid"]: (each.version_id, row["_rid"]) for row in rows}

    def run(self, name: str) -> None:
        self.note(name, self.home.run(self.folder / f"{name}.yml").run_id)

    def refresh(self) -> None:
        for name in sorted(self.outputs):
            sources = [each.name for each in self.home._open.questions.graph.sources(self.latest[name])]
            run_id = self.home.refresh(*(f"{name}.{source}" for source in sources)).run_id
            if run_id != self.latest[name]:
                self.note(name, run_id)

    def save(self, name: str) -> None:
        """A saved query over a workflow's output and a source of its own run."""
        chance = self.chance
        other = chance.choice(sorted(each for each in self.latest if each.startswith("w")))
        query = f"SELECT o.k AS k, count(*) AS n FROM {other}.o AS o JOIN {other}.s0 AS s ON o.k = s.k GROUP BY o.k"
        if self.latest and chance.random() < 0.5:
            saved = [each for each in self.latest if each.startswith("q")]
            if saved:
                query = f"SELECT k, n FROM {chance.choice(saved)}.{chance.choice(saved)}"
        try:
            assert self.home.query(query, save=name).notes
        except SourceError:  # a file of it was overwritten since
            return
        self.note(name, self.home._open.questions.reader.latest_run(name).id)


class Oracle:
    """Follows what is inside runs over all of them."""

    def __init__(self, catalog: Catalog) -> None:
        self.home, self.catalog = catalog.home, catalog
        ask = self.home._open.questions
        self.datasets = [each for run in ask.reader.runs() for each in ask.graph.datasets(run.id)]
        self.identity = catalog.identity
        self.behind = {}
        for each in [one for one in self.datasets if one.role != "source"]:
            self._follow(each)

    def _follow(self, dataset) -> None:
        ask = self.home._open.questions
        begin = Place(dataset.run_id, dataset.space)
        walked = walk(ask.graph, begin, "backward", links=False, nearest=True)
        for rid in self.identity[dataset]:
            self.behind[dataset, rid] = set()
        for place in walked.reachable_places(absence=False):
            for each in ask.graph.datasets_at(place)[:1]:
                sql = ask.walk_sql(walked.ways_toward(place, absence=False), Start(), begin, place, "backward")
                for a, b in ask.engine.rows(f"SELECT a, b FROM ({sql.text})", sql.parameters):
                    self.behind[dataset, a].add((each, b))

    def _made_as(self, dataset):
        """The output that a source is, where it is one."""
        if dataset.role != "source":
            return None
        run_id, name = self.catalog.read_from.get((dataset.run_id, dataset.name), (None, None))
        if run_id is None and not self.is_asked(dataset):  # of a saved query
            makers = [each for each in self.datasets if each.version_id == dataset.version_id and each.role != "source"]
            return max(makers, key=lambda each: self.home._open.questions.graph.held_since(each.run_id), default=None)
        return next((each for each in self.datasets if (each.run_id, each.name) == (run_id, name)), None)

    def is_asked(self, dataset) -> bool:
        """What a saved query has read goes by the name that it has in its own workflow."""
        return dataset.workflow == self.home._open.questions.reader.run(dataset.run_id).workflow

    def reached(self, dataset, rid):
        found, pending = set(), [(dataset, rid)]
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found.add(node)
            pending += self.behind.get(node, ())
            made = self._made_as(node[0])
            pending += [(made, node[1])] if made is not None else []
        return {self.identity[each][one] for each, one in found}

    def pairs(self, result, source):
        found = set()
        for out in self.identity[result]:
            reached = self.reached(result, out)
            found |= {(out, rid) for rid, row in self.identity[source].items() if row in reached}
        return found


@pytest.mark.parametrize("seed", range(SEED, SEED + CATALOGS))
def test_every_pair_of_datasets_in_both_directions(spark, tmp_path, seed):
    chance = random.Random(seed)
    with Home.open(tmp_path / "home") as home:
        catalog = Catalog(tmp_path, home, chance)
        for number in range(3):
            catalog.write_workflow(f"w{number}")
            catalog.run(f"w{number}")
        catalog.save("q0")
        for _ in range(3):
            catalog.files.overwrite()
            if chance.random() < 0.6:
                catalog.refresh()
            else:
                catalog.run(f"w{chance.randint(0, 2)}")
        catalog.save("q1")
        oracle = Oracle(catalog)
        linked = 0
        datasets = [each for each in oracle.datasets if oracle.is_asked(each)]
        for result in datasets:
            for source in datasets:
                if (result.run_id, result.space) == (source.run_id, source.space):
                    continue
                expected = oracle.pairs(result, source)
                start, end = result.qualified_name, source.qualified_name
                back = asked(lambda: home.backward(start, to=end, all=True, pairs=True))  # noqa: B023
                assert (back or set()) == expected, f"backward {start} -> {end}"
                ahead = asked(lambda: home.forward(end, to=start, all=True, pairs=True))  # noqa: B023
                assert (ahead or set()) == expected, f"forward {end} -> {start}"
                linked += bool(expected)
        assert linked > 20
