"""Sources of every kind: what is read, which rid each row has, and what is still answered when files change.

Column `n` of the data is the row's place by our own count: it must be the rid, in DuckDB's rows and in Spark's
lineage alike.
"""

import datetime
import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError, SourceError, WorkflowError
from lineage_service.store.layout import HomeLayout
from lineage_service.store.listing import listing
from lineage_service.store.rids import RidMap
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import Version

# What breaks naive code in names of files and folders.
ODD = ["a b", "100%", "ünï", "x[1]", "p+q", "c,d", "it's", 'dq"x', "br{a,b}", "#h", "e=q", "s*r", "q?", "%41"]

# Columns that Spark, DuckDB or we ourselves have a use for.
NAMES = ["_metadata", "file_row_number", "file_index", "filename", "rid", "_smoke_h0"]


def workflow(folder: Path, sources: dict, steps: list[dict] | None = None, *, name: str = "flow", **more) -> Path:
    """A workflow file; without steps, each source goes through a filter to an output `out_<source>`."""
    if steps is None:
        steps = [{"name": f"out_{each}", "op": "filter", "input": each, "where": "n >= 0"} for each in sources]
    outputs = {step["name"]: {} for step in steps if step["name"].startswith("out")}
    body = {"version": 1, "name": name, "sources": sources, "steps": steps, "outputs": outputs, **more}
    path = folder / f"{name}.yml"
    path.write_text(json.dumps(body), encoding="utf-8")  # JSON is YAML
    return path


def parquet(path: Path, numbers, **columns) -> None:
    """A Parquet file with column `n`, and others beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {"n": pa.array(list(numbers), pa.int64())}
    pq.write_table(pa.table({**table, **{name: pa.array(values) for name, values in columns.items()}}), path)


def pairs(answer) -> list[tuple[int, int]]:
    return [(row["out_rid"], row["rid"]) for row in answer.to_pylist()]


def misplaced(home: Home, source: str, rows: int) -> str:
    """'' where rids are positions, as rows show them and as lineage gives them; else what is wrong."""
    shown = {row["_rid"]: row["n"] for row in home.rows(source).to_pylist()}
    if shown != {number: number for number in range(rows)}:
        return f"{source}: rows are {shown}"
    picked = {row["_rid"]: row["n"] for row in home.rows(source, rid=range(rows)).to_pylist()}
    if picked != shown:
        return f"{source}: by position, rows are {picked}"
    output = {row["_rid"]: row["n"] for row in home.rows(f"out_{source}").to_pylist()}
    found = dict(pairs(home.backward(f"out_{source}", to=source, all=True, pairs=True)))
    if found != output or sorted(output.values()) != list(range(rows)):
        return f"{source}: output is {output}, lineage {found}"
    return ""


@pytest.fixture(scope="module")
def kinds(spark, tmp_path_factory):
    """One run over sources of every kind: the home, and how many rows each source has."""
    folder = tmp_path_factory.mktemp("kinds, 50% ü")
    data, sources, rows = folder / "data", {}, {}

    def source(name: str, count: int, path: str, **declared) -> None:
        sources[name], rows[name] = {"path": path, **declared}, count

    parquet(data / "single.parquet", range(3))
    source("single", 3, "data/single.parquet")
    for number, numbers in enumerate([range(2), [], range(2, 9), [9]]):
        parquet(data / "sizes" / f"{number}.parquet", numbers)
    (data / "sizes" / "_SUCCESS").touch()
    source("sizes", 10, "data/sizes")
    parquet(data / "globbed" / "part-1.parquet", [0])
    parquet(data / "globbed" / "part-2.parquet", [1, 2])
    parquet(data / "globbed" / "other.parquet", [-1])
    source("globbed", 3, "data/globbed/part-*.parquet")
    for number, name in enumerate(sorted(ODD)):
        parquet(data / "odd [1] {x,y} 50% ü+" / f"{name}.parquet", [2 * number, 2 * number + 1])
    source("odd", 2 * len(ODD), "data/odd [1] {x,y} 50% ü+")
    for number in range(130):
        parquet(data / "many" / f"{number:03d} %ü.parquet", [number])
    source("many", 130, "data/many")
    parquet(folder.parent / "beside" / "1.parquet", [0, 1])
    parquet(folder.parent / "beside" / "2.parquet", [2])
    source("beside", 3, "../beside/*.parquet")
    parquet(data / "lacking" / "1.parquet", [0, 1], wide=["a", "b"], nested=[[1], [2]])
    parquet(data / "lacking" / "2.parquet", [2])
    parquet(data / "lacking" / "3.parquet", [3, 4], wide=["c", None], nested=[[3], None])
    source("lacking", 5, "data/lacking")
    source("merged", 5, "data/lacking", options={"mergeSchema": True})
    names = {name: [7, 7] for name in NAMES}
    parquet(data / "names" / "1.parquet", [0, 1], **names)
    parquet(data / "names" / "2.parquet", [2, 3], **names)
    source("names", 4, "data/names")
    source("name_of_one", 2, "data/names/1.parquet")
    source("undeclared", 4, "data/names", schema="n BIGINT")  # the file has what hides positions, the schema has not
    parquet(data / "rid.parquet", [0, 1], **{"_rid": [70, 71], "old name": [1, 2]})
    source("renamed", 2, "data/rid.parquet", rename={"_rid": "their_rid", "Old Name": "new_name"})

    _text_sources(data, source)
    home = Home.open(folder / "home")
    home.run(workflow(folder, sources))
    yield home, rows
    home.close()


def _text_sources(data: Path, source) -> None:
    for kind in ("plain", "typed", "several", "text", "packed", "lines"):
        (data / kind).mkdir()
    (data / "plain" / "a.csv").write_text("n,t\n0,x\n1,y\n", encoding="utf-8")
    source("plain_csv", 2, "data/plain/a.csv", options={"header": True, "inferSchema": True})
    (data / "typed" / "a.csv").write_text("0;x\n1;\n", encoding="utf-8")
    source("typed_csv", 2, "data/typed/*.csv", options={"sep": ";"}, schema="n BIGINT, t STRING")
    (data / "several" / "a+ 1%.csv").write_text("n\n0\n", encoding="utf-8")
    (data / "several" / "a- ü.csv").write_text("n\n", encoding="utf-8")
    (data / "several" / "b [2].csv").write_text("n\n" + "".join(f"{n}\n" for n in range(1, 500)), encoding="utf-8")
    source("several_csv", 500, "data/several", format="csv", options={"header": True}, schema="n BIGINT")
    (data / "text" / "a.csv").write_text('n,t\n0,"one\ntwo, ""three"""\n1,"x\n\ny"\n2,z\n', encoding="utf-8")
    source(
        "quoted_csv",
        3,
        "data/text/a.csv",
        options={"header": True, "multiLine": True, "escape": '"'},
        schema="n BIGINT, t STRING",
    )
    (data / "packed" / "a.csv.gz").write_bytes(gzip.compress(b"n\n0\n1\n2\n"))
    source("packed_csv", 3, "data/packed/a.csv.gz", options={"header": True}, schema="n BIGINT")
    (data / "lines" / "1.json").write_text('{"n": 0, "o": {"k": [1]}}\n{"n": 1}\n', encoding="utf-8")
    (data / "lines" / "2.json").write_text('{"n": 2, "o": {"k": null}}\n', encoding="utf-8")
    source("json_lines", 3, "data/lines/*.json", rename={"o": "p"})


def test_rids_are_positions_in_every_kind_of_source(kinds):
    home, rows = kinds
    wrong = [problem for name, count in rows.items() if (problem := misplaced(home, name, count))]
    assert not wrong, "\n".join(wrong)


def test_columns_of_odd_names_and_files_keep_their_values(kinds):
    home, _ = kinds
    hidden = home.rows("names").to_pylist()
    assert list(hidden[0]) == [
        "_rid",
        "n",
        "_metadata",
        "file_row_number",
        "file_index",
        "filename",
        "rid",
        "_smoke_h0",
    ]
    assert all(set(row.values()) - {row["_rid"]} == {7} for row in hidden)
    assert [row["_rid"] for row in home.rows("names", where="file_row_number = 7 and n > 1").to_pylist()] == [2, 3]
    assert home.rows("out_names", where="file_index = 7 and n = 3").count() == 1
    lacking = home.rows("lacking").to_pylist()
    assert [row["wide"] for row in lacking] == ["a", "b", None, "c", None]
    assert [row["nested"] for row in lacking] == [[1], [2], None, [3], None]
    assert home.rows("lacking", rid=[2]).arrow().schema.field("wide").type == pa.string()
    assert home.rows("renamed").to_pylist() == [
        {"_rid": 0, "n": 0, "their_rid": 70, "new_name": 1},
        {"_rid": 1, "n": 1, "their_rid": 71, "new_name": 2},
    ]
    assert home.rows("json_lines", rid=[0]).to_pylist() == [{"_rid": 0, "n": 0, "p": {"k": [1]}}]
    assert home.rows("quoted_csv", rid=[0]).to_pylist()[0]["t"] == 'one\ntwo, "three"'


def test_predicates_over_files_whose_names_look_like_globs(kinds):
    home, _ = kinds
    assert [row["_rid"] for row in home.rows("odd", where="n = 5").to_pylist()] == [5]


def test_hive_partitions_are_columns_with_their_types(spark, tmp_path):
    """Also renamed, in a snapshot, from a glob, and beside a file column of the same name."""
    dates = [datetime.date(2024, 2, 29), datetime.date(1999, 12, 31)]
    texts = ["a b", "50%", "ü", None, "x/y:z"]
    spelled = ["a b", "50%25", "ü", "__HIVE_DEFAULT_PARTITION__", "x%2Fy%3Az"]
    number, expected = 0, []
    folders = sorted(
        (f"k={key:02d}/d={day}/t={folder}", (key, day, text))
        for key in (3, 12)
        for day in dates
        for text, folder in zip(texts, spelled, strict=True)
    )
    for folder, values in folders:
        parquet(tmp_path / "hive" / folder / "p.parquet", [number, number + 1], k=[None, None])
        expected += [values, values]
        number += 2
    plain = {"path": "hive"}
    file = workflow(
        tmp_path,
        {
            "hive": plain,
            "again": {**plain, "rename": {"K": "key", "t": "text", "d": "day"}},
            "kept": {**plain, "snapshot": True, "rename": {"t": "text"}},
            "deep": {"path": "hive/k=03/*/*"},
        },
    )
    with Home.open(tmp_path / "home") as home:
        home.run(file)
        rows = home.rows("hive").arrow()
        assert rows.schema.field("k").type == pa.int32()
        assert rows.schema.field("d").type == pa.date32()
        assert [tuple(row[name] for name in "kdt") for row in rows.to_pylist()] == expected
        picked = home.rows("hive", rid=[1, 22, 39]).to_pylist()
        assert [tuple(row[name] for name in "kdt") for row in picked] == [expected[rid] for rid in (1, 22, 39)]
        again = home.rows("again").to_pylist()
        assert [(row["key"], row["day"], row["text"]) for row in again] == expected
        for source in ("hive", "again", "kept", "deep"):
            count = 20 if source == "deep" else 40
            assert not misplaced(home, source, count)
        # What Spark saw is what DuckDB shows.
        for name, columns in (("hive", "k d t"), ("again", "key day text"), ("kept", "k d text"), ("deep", "n")):
            seen = home.rows(f"out_{name}", columns=["n", *columns.split()], order_by="n").arrow().drop(["_rid"])
            shown = home.rows(name, columns=["n", *columns.split()]).arrow().drop(["_rid"])
            assert seen.equals(shown), name
        assert home.rows("hive", where="d = DATE '1999-12-31' and t is null and k = 12", columns=["n"]).count() == 2
        shutil.rmtree(tmp_path / "hive")
        assert home.rows("kept", key={"text": "x/y:z"}).count() == 8
        with pytest.raises(SourceError, match="hive"):
            home.rows("hive")


def test_moments_in_folder_names_are_of_the_sessions_time_zone(spark, tmp_path):
    parquet(tmp_path / "s" / "at=2024-06-01 00%3A00%3A00" / "p.parquet", [0])
    parquet(tmp_path / "s" / "at=2024-12-01 12%3A30%3A00.5" / "p.parquet", [1])
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with Home.open(tmp_path / "home") as home:
            home.run(workflow(tmp_path, {"s": {"path": "s"}}))
            expected = ["2024-05-31T22:00:00+00:00", "2024-12-01T11:30:00.500000+00:00"]
            for dataset in ("s", "out_s"):
                assert [row["at"].isoformat() for row in home.rows(dataset, order_by="n").to_pylist()] == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_values_of_every_type_come_back(spark, tmp_path):
    person = pa.struct([("first name", pa.string()), ("age", pa.int16())])
    zone, utc = pa.timestamp("us", tz="Europe/Berlin"), datetime.UTC
    table = pa.table(
        {
            "n": pa.array([0, 1], pa.int64()),
            "with_zone": pa.array([datetime.datetime(2024, 7, 1, 12, 30, 0, 123456, utc), None], zone),
            "without": pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us")),
            "money": pa.array([Decimal("-12345678901234567890.12"), None], pa.decimal128(38, 2)),
            "small": pa.array([Decimal("0.10"), None], pa.decimal128(9, 2)),
            "items": pa.array([[1, None], None], pa.list_(pa.int32())),
            "person": pa.array([{"first name": "Ä", "age": None}, None], person),
            "marks": pa.array([[("a", 1.5), ("b", None)], None], pa.map_(pa.string(), pa.float64())),
            "raw": pa.array([b"\x00\xff", None], pa.binary()),
            "tiny": pa.array([-128, None], pa.int8()),
            "real": pa.array([float("nan"), None], pa.float32()),
            "a.b": pa.array([True, None], pa.bool_()),
            'we"ird `name`': pa.array(["", None], pa.string()),
        }
    )  # fmt: skip
    pq.write_table(table, tmp_path / "types.parquet")
    pq.write_table(table, tmp_path / "old.parquet", use_deprecated_int96_timestamps=True)
    sources = {name: {"path": f"{name}.parquet"} for name in ("types", "old")}
    with Home.open(tmp_path / "home") as home:
        home.run(workflow(tmp_path, sources))
        for dataset in ("types", "out_types"):
            found = home.rows(dataset).arrow().drop(["_rid"])
            assert found.column_names == table.column_names
            for name in table.column_names:
                wanted = table.schema.field(name).type
                if name == "with_zone":
                    wanted = pa.timestamp("us", tz="UTC")
                assert found.schema.field(name).type == wanted, (dataset, name)
                assert repr(found.column(name).to_pylist()) == repr(table.column(name).cast(wanted).to_pylist())
        old = home.rows("old").arrow()
        assert old.schema.field("with_zone").type == pa.timestamp("us", tz="UTC")
        assert old.column("with_zone").to_pylist() == table.column("with_zone").to_pylist()
        assert home.rows("types", key={"money": "-12345678901234567890.12", "raw": "\\x00\\xFF"}).count() == 1


def test_snapshots_outlive_their_files_and_are_made_once(spark, tmp_path):
    parquet(tmp_path / "a" / "1.parquet", [0, 1])
    (tmp_path / "b.csv").write_text("0\n1\n2\n")
    sources = {
        "kept": {"path": "a", "snapshot": True},
        "text": {"path": "b.csv", "schema": "n BIGINT"},
    }
    file = workflow(tmp_path, sources)
    with Home.open(tmp_path / "home") as home:
        first, second = home.run(file).run_id, home.run(file).run_id
        runs = tmp_path / "home" / "runs"
        assert sorted(path.name for path in (runs / first / "sources").iterdir()) == ["kept", "text"]
        assert not (runs / second / "sources").exists(), "unchanged files are not copied twice"
        parquet(tmp_path / "a" / "1.parquet", [0])
        (tmp_path / "b.csv").unlink()
        (tmp_path / "b.csv").write_text("0\n")
        third = home.run(file).run_id
        for run, counts in ((first, (2, 3)), (second, (2, 3)), (third, (1, 1))):
            assert tuple(home.rows(f"{name}@{run}").count() for name in sources) == counts
            assert pairs(home.backward(f"out_kept@{run}", to="kept", rid=0, pairs=True)) == [(0, 0)]
        shutil.rmtree(tmp_path / "a")
        assert home.rows(f"kept@{first}", where="n = 1").count() == 1
        # A snapshot that was lost is made anew, and the catalog knows the new one.
        parquet(tmp_path / "a" / "1.parquet", [0, 1, 2])
        lost, _ = home.run(file).run_id, shutil.rmtree(runs / third / "sources" / "text")
        fourth = home.run(file).run_id
        shutil.rmtree(tmp_path / "a")
        assert home.rows(f"kept@{fourth}").count() == 3
        assert home.rows(f"text@{fourth}").to_pylist() == [{"_rid": 0, "n": 0}]
        assert lost != fourth


def test_lineage_goes_on_through_workflows(spark, tmp_path):
    """A chain of three, with a rename and a pinned run; and one file under two names."""
    parquet(tmp_path / "base.parquet", range(6), k=[0, 0, 1, 1, 2, 2])
    keep = [{"name": "out", "op": "aggregate", "input": "base", "by": ["k"], "measures": {"n": "sum(n)"}}]
    one = workflow(tmp_path, {"base": {"path": "base.parquet"}}, keep, name="one")
    where = [{"name": "out", "op": "filter", "input": "fed", "where": "total > 1"}]
    two = workflow(tmp_path, {"fed": {"output": "one.out", "rename": {"n": "total"}}}, where, name="two")
    joined = [
        {"name": "left_side", "op": "project", "input": "again", "columns": {"k1": "k", "n1": "n"}},
        {"name": "both", "op": "join", "left": "left_side", "right": "base", "on": "k1 = k AND n1 < n"},
        {"name": "last", "op": "join", "left": "both", "right": "fed", "on": "k1 = fed_k"},
        {"name": "out", "op": "project", "input": "last", "columns": ["n1", "n", "total"]},
    ]
    three_sources = {
        "again": {"path": "base.parquet"},
        "base": {"path": "base.parquet"},
        "fed": {"output": "two.out", "rename": {"k": "fed_k"}},
    }
    three = workflow(tmp_path, three_sources, joined, name="three")
    with Home.open(tmp_path / "home") as home:
        first = home.run(one).run_id
        home.run(two)
        home.run(three)
        assert home.rows("two.fed").arrow().column_names == ["_rid", "k", "total"]
        # k=0 has total 1 and is filtered out; k=1 comes from rows 2 and 3, k=2 from 4 and 5.
        rows = {row["_rid"]: row for row in home.rows("three.out").to_pylist()}
        assert sorted((row["n1"], row["n"], row["total"]) for row in rows.values()) == [(2, 3, 5), (4, 5, 9)]
        for rid, row in rows.items():
            for name in ("three.again", "three.base"):  # the same rows, by either name, directly and through `fed`
                found = pairs(home.backward("three.out", to=name, rid=rid, pairs=True))
                assert sorted(rid for _, rid in found) == [row["n1"], row["n"]]
            through = home.backward("three.out", to="one.base", rid=rid).to_pylist()
            assert [each["n"] for each in through] == [row["n1"], row["n"]]
        assert home.forward("one.base", to="three.out", rid=0).count() == 0
        ahead = home.forward("one.base", to="three.out", rid=3).to_pylist()
        assert [row["total"] for row in ahead] == [5]
        assert home.forward("one.base", to="two.out", where="n = 4").to_pylist()[0]["total"] == 9
        counts = {row["dataset"]: row["rows"] for row in home.backward("three.out", all=True).to_pylist()}
        assert {"one.base": 4, "one.out": 2, "two.fed": 2, "two.out": 2, "three.again": 4}.items() <= counts.items()
        # A later run of the first workflow does not change what the second was made from.
        parquet(tmp_path / "base.parquet", range(8), k=[0, 0, 1, 1, 2, 2, 3, 3])
        second = home.run(one).run_id
        assert home.backward("two.out", to=f"one.base@{first}", all=True, rids=True).count() == 4
        with pytest.raises(QuestionError, match="not linked"):
            home.backward("two.out", to=f"one.base@{second}", all=True, rids=True)
        pinned = {"fed": {"output": f"one.out@{first}", "rename": {"n": "total"}}}
        home.run(workflow(tmp_path, pinned, where, name="four"))
        assert home.rows("four.fed").count() == 3
        home.run(two)
        assert home.rows("two.fed").count() == 4
        assert home.forward(f"one.base@{second}", to="two.out", rid=7).to_pylist()[0]["total"] == 13


def test_renames_that_cannot_be_are_refused(spark, tmp_path):
    (tmp_path / "a.json").write_text('{"n": 0, "m": 1}\n')
    parquet(tmp_path / "r.parquet", [0], _rid=[1])
    for source, said in (
        ({"path": "a.json", "rename": {"x": "y"}}, "no column 'x'; columns here: m, n"),
        ({"path": "a.json", "rename": {"m": "N"}}, "two columns are called"),
        ({"path": "r.parquet"}, "_rid"),
    ):
        with Home.open(tmp_path / "home") as home:
            with pytest.raises((SourceError, WorkflowError), match=said) as caught:
                home.run(workflow(tmp_path, {"s": source}))
            assert "flow.yml:1:" in str(caught.value)
            assert home.runs().count() == 0


# --- versions with removed rows, and push-down: below the surface ---------------------------------------------------


def opened(spark, folder: Path, path: str, **declared):
    """A source as a run opens it."""
    from lineage_service.spark.open_sources import SourceOpener
    from lineage_service.spec.models import SourceSpec

    run = HomeLayout(folder / "home").run_folder("x")
    opener = SourceOpener(spark, run, folder, lambda _: pytest.fail("no output"), lambda _: None)
    return opener.open("s", SourceSpec(path=path, **declared), None)


def test_rids_and_positions_are_inverse():
    for rids in ([], [0], [5], [0, 1, 2], [1, 2, 5, 6, 9], [0, 10, 11, 30], list(range(0, 600, 3))):
        found = RidMap.of_rids(rids)
        assert [found.rid(position) for position in range(found.rows)] == rids
        inverse = {rid: found.position(rid) for rid in range(-2, max(rids, default=0) + 3)}
        assert {rid: place for rid, place in inverse.items() if place is not None} == {
            rid: place for place, rid in enumerate(rids)
        }
        assert found.end == (rids[-1] + 1 if rids else 0)


@pytest.mark.parametrize(
    ("files", "kept"),
    [
        ([[0, 1, 2, 3, 4]], [2, 3, 7, 8, 20]),
        ([[0, 1], [], [2, 3, 4, 5], [6]], [0, 1, 3, 4, 9, 10, 12]),
        ([[0, 1, 2]], [0, 1, 2]),
        ([range(40), range(40, 300)], range(7, 907, 3)),  # more gaps than an expression should have branches
    ],
)
def test_removed_rows_leave_gaps_in_spark_and_duckdb_alike(spark, tmp_path, files, kept):
    from lineage_service.spark.capture_columns import CaptureColumnNames

    for number, numbers in enumerate(files):
        parquet(tmp_path / "gaps" / f"{number}.parquet", numbers)
    whole = opened(spark, tmp_path, "gaps")
    rids = RidMap.of_rids(kept)
    version = Version("v", "source", whole.version.files, whole.version.columns, rids.gaps)
    assert Version.from_json("v", version.to_json()) == version
    wanted = dict(enumerate(kept))  # n is the position
    scan = VersionScan(version, whole.paths)
    asked = duckdb.connect()
    assert dict(asked.execute(scan.select()).fetchall()) == wanted
    assert sorted(rid for (rid,) in asked.execute(scan.all_rids()).fetchall()) == list(kept)
    some = list(range(0, rids.rows, 2))
    assert dict(asked.execute(scan.select_positions(some)).fetchall()) == {place: wanted[place] for place in some}
    assert asked.execute(scan.select_positions([])).fetchall() == []
    from dataclasses import replace

    relation = replace(whole, version=version).relation(CaptureColumnNames("_smoke_"), captured=True)
    assert {row["n"]: row["_smoke_h0"] for row in relation.frame.collect()} == wanted


@pytest.mark.parametrize("files", [1, 3, 130])
def test_filters_and_columns_are_pushed_into_the_scan(spark, tmp_path, files):
    from lineage_service.spark.capture_columns import CaptureColumnNames

    for number in range(files):
        parquet(tmp_path / "s" / f"{number:03d}.parquet", [number], other=["x"], third=[1.5])
    frame = opened(spark, tmp_path, "s").relation(CaptureColumnNames("_smoke_"), captured=True).frame
    asked = frame.filter("n > 1").select("n", "_smoke_h0")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    # A broadcast of the files' first positions is no shuffle of the data.
    scans = [line for line in plan.splitlines() if "FileScan" in line]
    assert len(scans) == 1
    assert "GreaterThan(n,1)" in scans[0].partition("PushedFilters")[2]
    assert "ReadSchema: struct<n:bigint,_tmp_metadata_row_index:bigint>" in scans[0]
    assert not [line for line in plan.splitlines() if "Exchange" in line and "BroadcastExchange" not in line]
    assert {row["n"]: row["_smoke_h0"] for row in asked.collect()} == {n: n for n in range(2, files)}


def test_partition_values_are_read_as_spark_does(tmp_path):
    parquet(tmp_path / "d" / "a%20b=%C3%BC" / "x.parquet", [0])
    found = listing("d", tmp_path)
    assert found.partition_values(found.files[0]) == {"a b": "Ã¼"}


def test_only_the_pattern_of_a_glob_is_one(tmp_path):
    """The workflow's own folder may be called like one; `..` goes to where the folder really is."""
    folder = tmp_path / "own [x]*"
    parquet(folder / "real" / "deep" / "1.parquet", [0])
    parquet(folder / "real" / "2.parquet", [0])
    parquet(folder / "2.parquet", [0])
    (folder / "link").symlink_to(folder / "real" / "deep")
    assert listing("real/*/*.parquet", folder).files == (str(folder / "real" / "deep" / "1.parquet"),)
    assert listing("link/../*.parquet", folder).files == (str(folder / "real" / "2.parquet"),)
    assert listing(str(tmp_path) + "/own [[]x]*/2.parquet", folder).files == (str(folder / "2.parquet"),)
    with pytest.raises(SourceError, match="no file matches") as caught:
        listing("real/*.csv", folder)
    assert "holds: 2.parquet, deep" in str(caught.value)
