"""Files of a source that is read in place are overwritten, removed and added: a refresh computes what depends on them
and leaves the rest; on random workflows it is what the oracle says. SMOKE_REFRESHES=1000 changes as many plans.
"""

import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import SourceError
from tests.random_plans.generate import Generator, random_plan
from tests.refresh.test_refresh_random import Changing, differences, table
from tests.support.harness import merged_flow

PLANS = int(os.environ.get("SMOKE_REFRESHES", "12"))
SEED = int(os.environ.get("SMOKE_SEED", "0")) + 9000
BATCH = 12
ROUNDS = 2
STEPS = """
  - {name: flown, op: filter, input: flights, where: NOT cancelled}
  - {name: named, op: join, left: flown, right: names, using: [carrier]}
  - {name: monthly, op: aggregate, input: named, by: [month], measures: {n: count(*), total: sum(delay)}}
  - {name: busy, op: aggregate, input: flown, by: [month, carrier], measures: {n: count(*)}, having: n > 3}
  - {name: shares, op: window, input: flown, partition_by: [month], measures: {all_of_it: sum(delay)}}
  - {name: first, op: limit, input: flown, n: 5}
"""
FLOW = f"""
version: 1
name: air
sources: {{flights: {{path: flights}}, names: {{path: names.parquet}}}}
steps:{STEPS}outputs: {{named: , monthly: , busy: , shares: , first: }}
"""
NAMES = {"AA": "Alpha", "BB": "Beta", "CC": "Gamma"}
PER_MONTH = 10


def month(number: int, shift: int = 0, rows: int = PER_MONTH) -> dict[str, list]:
    flights = range(number * 100, number * 100 + rows)
    return {
        "month": [number] * rows,
        "carrier": [[*NAMES][(each + shift) % 3] for each in flights],
        "delay": [each % 7 + shift for each in flights],
        "cancelled": [each % 10 == 4 for each in flights],
    }


def write(path: Path, rows: dict[str, list]) -> None:
    """A file that is seen to be another one, however fast it follows the one before."""
    seen = path.stat().st_mtime_ns if path.exists() else 0
    pq.write_table(pa.table(rows), path)
    os.utime(path, ns=(seen + 1_000_000_000, max(seen, path.stat().st_mtime_ns) + 1_000_000_000))


def expected(months: dict[int, dict[str, list]]) -> dict[str, Counter]:
    rows = [dict(zip(each, values, strict=True)) for each in months.values() for values in zip(*each.values())]  # noqa: B905
    flown = [row for row in rows if not row["cancelled"]]
    monthly, pairs = Counter(), Counter()
    for row in flown:
        monthly[row["month"], "n"] += 1
        monthly[row["month"], "total"] += row["delay"]
        pairs[row["month"], row["carrier"]] += 1
    return {
        "named": Counter((row["month"], row["delay"], NAMES[row["carrier"]]) for row in flown),
        "monthly": Counter(
            (each, monthly[each, "n"], monthly[each, "total"]) for each in {row["month"] for row in flown}
        ),
        "busy": Counter((*key, n) for key, n in pairs.items() if n > 3),
        "shares": Counter((row["month"], row["delay"], monthly[row["month"], "total"]) for row in flown),
    }


SHOWN = {
    "named": ("month", "delay", "name"),
    "monthly": ("month", "n", "total"),
    "busy": ("month", "carrier", "n"),
    "shares": ("month", "delay", "all_of_it"),
}


def shown(home: Home) -> dict[str, Counter]:
    return {
        output: Counter(tuple(row[name] for name in names) for row in home.rows(output).to_pylist())
        for output, names in SHOWN.items()
    }


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_what_depends_on_changed_files_is_computed(engine, spark, tmp_path, monkeypatch):
    if engine == "spark":
        monkeypatch.setattr("lineage_service.refresh.run_refresh.means_the_same", lambda _: False)
    folder = tmp_path / "flights"
    folder.mkdir()
    months = {number: month(number) for number in range(1, 13)}
    for number, rows in months.items():
        write(folder / f"{number:02d}.parquet", rows)
    pq.write_table(pa.table({"carrier": [*NAMES], "name": [*NAMES.values()]}), tmp_path / "names.parquet")
    (tmp_path / "flow.yml").write_text(FLOW)
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "flow.yml")
        before = {row["month"]: row["_rid"] for row in home.rows("monthly").to_pylist()}

        months[7] = month(7, 1, 20)
        write(folder / "07.parquet", months[7])
        report = home.refresh("air")
        assert shown(home) == expected(months)
        assert report.sources == {"flights": {"removed": 10, "changed": 0, "added": 20}}
        ways = {name: (each.way, each.computed) for name, each in report.datasets.items()}
        assert ways["named"] == ("touched", 18), "rows of the new file alone"
        assert ways["monthly"] == ("touched", 1)
        assert ways["shares"] == ("touched", 18)
        assert ways["busy"][0] == "touched"
        # What `having` hid before may come: three carriers of July, and the pairs of all months that it hides.
        assert ways["busy"][1] <= 3 + 3 * 12
        assert ways["first"][0] == "all"
        assert {row["month"]: row["_rid"] for row in home.rows("monthly").to_pylist()} == before

        months[13] = month(13)
        write(folder / "13.parquet", months[13])
        report = home.refresh("air")
        assert shown(home) == expected(months)
        assert [report.datasets[name].computed for name in ("named", "monthly", "shares")] == [9, 1, 9]

        del months[3]
        (folder / "03.parquet").unlink()
        report = home.refresh("air")
        assert shown(home) == expected(months)
        counts = [(report.datasets[name].computed, report.datasets[name].removed) for name in ("named", "monthly")]
        assert counts == [(0, 9), (0, 1)]

        # Rows that were brought by a refresh lie in files of their own, of which one changes and one goes.
        months[7], months[12] = month(7, 2, 3), month(12, 1)
        write(folder / "07.parquet", months[7])
        write(folder / "12.parquet", months[12])
        del months[13]
        (folder / "13.parquet").unlink()
        report = home.refresh("air")
        assert shown(home) == expected(months)
        assert report.datasets["named"].computed == 3 + 9
        pairs = home.backward("monthly", all=True, to="flights", pairs=True).to_pylist()
        assert len(pairs) == sum(n for _, n, _ in expected(months)["monthly"])
        for each in (2, 7, 12):
            found = home.backward("monthly", key={"month": each}, to="flights").to_pylist()
            assert Counter(row["delay"] for row in found) == Counter(
                delay for delay, out in zip(months[each]["delay"], months[each]["cancelled"], strict=True) if not out
            )
        # Questions about it when a file changes after that: rows of the others are still given.
        write(folder / "05.parquet", month(5, 2))
        assert len(home.backward("monthly", key={"month": 7}, to="flights").to_pylist()) == 3


def test_folders_whose_names_would_be_read_as_another_type(spark, tmp_path):
    """Spark guesses the type from the names of all folders: a name more or less, and a run would read other values."""
    whole, text = tmp_path / "whole", tmp_path / "text"
    for folder, names in ((whole, ("1", "2")), (text, ("1", "b"))):
        for name in names:
            (folder / f"p={name}").mkdir(parents=True)
            pq.write_table(pa.table({"v": [1, 2]}), folder / f"p={name}" / "a.parquet")
    (tmp_path / "flow.yml").write_text(
        "version: 1\nname: flow\nsources: {w: {path: whole}, t: {path: text}}\n"
        "steps:\n  - {name: ws, op: filter, input: w, where: v > 0}\n  - {name: ts, op: filter, input: t, where: v > 0}\n"
        "outputs: {ws: , ts: }\n"
    )
    with Home.open(tmp_path / "home") as home:
        home.run(tmp_path / "flow.yml")
        for name in ("1.5", "1e3", "1_000", "0x10", "b"):
            shutil.copytree(whole / "p=1", whole / f"p={name}")
            with pytest.raises(SourceError, match=r"a folder 'p=…' is no int"):
                home.refresh("flow")
            shutil.rmtree(whole / f"p={name}")
        (text / "p=b").rename(text / "p=2")
        with pytest.raises(SourceError, match=r"folders 'p=…' were read as string, and those that are there now"):
            home.refresh("flow")
        (text / "p=2").rename(text / "p=b")
        assert home.refresh("flow").datasets == {}
        shutil.copytree(whole / "p=1", whole / "p=007")
        home.refresh("flow")
        assert Counter(row["p"] for row in home.rows("ws").to_pylist()) == {1: 2, 2: 2, 7: 2}


# --- random workflows -----------------------------------------------------------------------------------------------


class Files(Changing):
    """Tables as files in a folder: rids by file."""

    def start(self, folder: Path, files: dict[str, list[list[dict]]]) -> None:
        self.folder, self.held = folder, {}
        for name, parts in files.items():
            paths = sorted((folder / "data" / name).glob("*.parquet"))
            base, self.held[name] = 0, {}
            for path, rows in zip(paths, parts, strict=True):
                self.held[name][path] = list(range(base, base + len(rows)))
                base += len(rows)

    def change(self, random: Random) -> None:
        values = Generator(random.randrange(1 << 30))
        for name, held in self.held.items():
            if random.random() < 0.3:
                continue
            new: list[Path] = []
            for path in list(held):
                how = random.choice(["stay", "stay", "other", "other", "gone"])
                if how == "stay" or (how == "gone" and len(held) == 1):
                    continue
                for rid in held.pop(path):
                    del self.rows[name][rid]
                path.unlink()
                if how == "other":
                    new.append(path)
            if random.random() < 0.5 or not (held or new):
                new.append(self.folder / "data" / name / f"came-{self.next[name]:04d}.parquet")
            for path in sorted(new):
                schema = self.schemas[name]
                rows = [{c: values.value(k) for c, k in schema.items()} for _ in range(random.choice([1, 2, 3]))]
                _unsigned(rows)
                pq.write_table(table(schema, rows), path)
                os.utime(path, ns=(0, 10**18 + self.next[name] * 10**9))
                held[path] = list(range(self.next[name], self.next[name] + len(rows)))
                for row in rows:
                    self.rows[name][self.next[name]] = row
                    self.next[name] += 1


@pytest.mark.parametrize("first", range(SEED, SEED + PLANS, BATCH))
def test_files_that_change_at_random(first, spark, tmp_path, monkeypatch):
    if first // BATCH % 2:  # all by Spark, also what DuckDB could
        monkeypatch.setattr("lineage_service.refresh.run_refresh.means_the_same", lambda _: False)
    plans = [random_plan(seed, size=1 + seed % 4).prefixed(f"p{seed}_") for seed in range(first, first + BATCH)]
    random, failures = Random(first), []
    for plan in plans:
        for rows in (*plan.tables.values(), *(file for files in plan.files.values() for file in files)):
            _unsigned(rows)
    with Home.open(tmp_path / "home") as home:
        flow = merged_flow(plans, "random")
        flow.files = {name: _parts(rows) for name, rows in flow.files.items()}
        home.run(flow.write(tmp_path))
        now = Files.of(plans)
        now.start(tmp_path, flow.files)
        before = {output: home.rows(output).to_pylist() for plan in plans for output in plan.outputs}
        for number in range(ROUNDS):
            now.change(random)
            report = home.refresh("random")
            for plan in plans:
                failures += [f"round {number}, {text}" for text in differences(home, report.run_id, plan, now, before)]
    assert not failures, "\n".join(failures)


def _unsigned(rows: list[dict]) -> None:
    """Zeros without a sign: a row of the one zero is not the same row with the other, but equal to it here."""
    for row in rows:
        row |= {name: 0.0 for name, value in row.items() if isinstance(value, float) and value == 0}


def _parts(files: list[list[dict]]) -> list[list[dict]]:
    """The same rows in more files."""
    rows = [row for file in files for row in file]
    cut = max(1, (len(rows) + 2) // 3)
    return [rows[at : at + cut] for at in range(0, len(rows), cut)] or [[]]
