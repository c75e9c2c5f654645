"""Lineage over whole catalogs: random workflows over shared files, chained, run again, without Spark.

Runs are made by hand (`tests/support/made_runs.py`): every dataset has random pairs to the datasets that it is made from. The
oracle knows a row as a record of a file, or as a row of one output, and follows pairs recursively. Every pair of
datasets is asked in both directions and must give just those pairs; and each other's inverse.
`SMOKE_CATALOGS=200` makes as many catalogs; `SMOKE_SEED` begins at another.
"""

import os
import random
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.errors import QuestionError
from lineage_service.store.versions import Version, VersionColumn, VersionFile, file_state, version_id
from tests.support.made_runs import Made, MadeHome

pytestmark = pytest.mark.long

CATALOGS = int(os.environ.get("SMOKE_CATALOGS", "6"))
SEED = int(os.environ.get("SMOKE_SEED", "0"))


@dataclass
class Dataset:
    """What the oracle knows: per rid the row it is, and per rid the rows that it was made from."""

    run_id: str
    workflow: str
    name: str
    identity: list[tuple[str, int]]
    behind: list[set[tuple[str, int]]] = field(default_factory=list)

    @property
    def qualified(self) -> str:
        return f"{self.workflow}.{self.name}@{self.run_id}"


class Catalog:
    """A random catalog, as a home and as the oracle knows it."""

    def __init__(self, folder, chance: random.Random) -> None:
        self.made, self.chance, self.folder = MadeHome(folder / "home"), chance, folder / "files"
        self.folder.mkdir()
        self.files = {f"f{number}.parquet": chance.randint(1, 5) for number in range(3)}
        for name, rows in self.files.items():
            pq.write_table(pa.table({"id": list(range(rows))}), self.folder / name)
        self.datasets: list[Dataset] = []
        self.behind: dict[tuple[str, int], set[tuple[str, int]]] = {}
        self.latest: dict[str, list[Dataset]] = {}
        workflows = [f"w{number}" for number in range(chance.randint(2, 4))]
        for number, name in enumerate(workflows + chance.choices(workflows, k=chance.randint(0, 3))):
            self._run(name, workflows[: workflows.index(name)], number)

    def _source(self) -> tuple[Version, list[tuple[str, int]]]:
        """Some of the files, under one of two readings: the same files may be two versions."""
        names = sorted(self.chance.sample(sorted(self.files), self.chance.randint(1, 2)))
        files, base, identity = [], 0, []
        for name in names:
            state = file_state(str(self.folder / name))
            rows = self.files[name]
            files.append(VersionFile(state.path, state.size, state.mtime_ns, state.fingerprint, rows, base, {}))
            identity += [(name, position) for position in range(rows)]
            base += rows
        column = self.chance.choice(["id", "renamed"])
        reading = version_id("source", [file_state(str(self.folder / name)) for name in names], column)
        return Version(reading, "source", tuple(files), (VersionColumn(column, "bigint", "id"),)), identity

    def _run(self, workflow: str, before: list[str], number: int) -> None:
        chance, made, inside = self.chance, {}, []
        for index in range(chance.randint(1, 2)):
            version, identity = self._source()
            made[f"s{index}"] = Made(version, "source")
            inside.append((f"s{index}", identity))
        readable = [each for flow in before for each in self.latest.get(flow, ()) if each.name.startswith("o")]
        for index, each in enumerate(chance.sample(readable, min(len(readable), chance.randint(0, 2)))):
            output = f"{each.workflow}.{each.name}"
            made[f"r{index}"] = Made(self.made.versions[each.run_id, each.name], "source", {"output": output})
            inside.append((f"r{index}", each.identity))
        outputs = []
        for index in range(chance.randint(1, 2)):
            rows, hops, behind = chance.randint(1, 4), {}, {}
            for name, identity in chance.sample(inside, chance.randint(1, len(inside))):
                pairs = [(a, b) for a in range(rows) for b in range(len(identity)) if chance.random() < 0.4]
                hops[name] = pairs
                for a, b in pairs:
                    behind.setdefault(a, set()).add(identity[b])
            identity = [(f"{workflow}.o{index}#{number}", rid) for rid in range(rows)]
            for rid, row in enumerate(identity):
                self.behind[row] = behind.get(rid, set())
            made[f"o{index}"] = Made(pa.table({"n": list(range(rows))}), hops=hops)
            inside.append((f"o{index}", identity))
            outputs.append((f"o{index}", identity))
        run_id = self.made.run(workflow, made)
        found = [Dataset(run_id, workflow, name, identity) for name, identity in inside]
        self.datasets += found
        self.latest[workflow] = found

    def reached(self, row: tuple[str, int]) -> set[tuple[str, int]]:
        """Everything behind a row, and the row itself."""
        found, pending = {row}, [row]
        while pending:
            for each in self.behind.get(pending.pop(), ()):
                if each not in found:
                    found.add(each)
                    pending.append(each)
        return found

    def pairs(self, result: Dataset, source: Dataset) -> set[tuple[int, int]]:
        return {
            (out, rid)
            for out, row in enumerate(result.identity)
            for reached in [self.reached(row)]
            for rid, other in enumerate(source.identity)
            if other in reached
        }


def asked(question) -> set[tuple[int, int]] | None:
    """The pairs of an answer; None where the two are not linked."""
    try:
        return {(row["out_rid"], row["rid"]) for row in question().to_pylist()}
    except QuestionError as error:
        if "are not linked" not in str(error):
            raise
        return None


@pytest.mark.parametrize("seed", range(SEED, SEED + CATALOGS))
def test_every_pair_of_datasets_in_both_directions(tmp_path, seed):
    catalog = Catalog(tmp_path, random.Random(seed))
    linked = 0
    with catalog.made.home as home:
        for result in catalog.datasets:
            for source in catalog.datasets:
                if result is source:
                    continue
                expected = catalog.pairs(result, source)
                start, end = result.qualified, source.qualified
                back = asked(lambda: home.backward(start, to=end, all=True, pairs=True))  # noqa: B023
                ahead = asked(lambda: home.forward(end, to=start, all=True, pairs=True))  # noqa: B023
                where = f"{start} -> {end}"
                assert (back or set()) == expected, f"backward {where}"
                assert (ahead or set()) == expected, f"forward {where}"
                linked += bool(expected)
                for out in catalog.chance.sample(sorted({out for out, _ in expected}), k=min(1, len(expected))):
                    rids = {rid for one, rid in expected if one == out}
                    assert home.backward(start, rid=out, to=end, count=True).count() == len(rids), where
                    found = home.backward(start, rid=out, to=end, rids=True).to_pylist()
                    assert {row["_rid"] for row in found} == rids, where
    assert linked
