"""Where source rows stand in their original files, judged by Spark: each record carries a marker, m0, m1, ….

The marker stands on the line on which its record begins, so the truth is found by searching the raw text for it.
"""

import bz2
import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.spark.open_sources import SourceOpener
from lineage_service.spec.models import SourceSpec
from lineage_service.store import original_text as original
from lineage_service.store.layout import HomeLayout
from lineage_service.store.row_places import RowPlace, places_at
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import OriginalFile, Version, VersionFile, file_of, file_state

ROW = "m STRING, t STRING"
CSV = {"format": "csv", "schema": ROW}
JSON = {"format": "json", "schema": ROW}

# Per source: how it is read, and its files as text (encoded as `encoding` says, UTF-8 without) or as bytes.
SOURCES: dict[str, tuple[dict, dict[str, str | bytes]]] = {
    "lines_of_csv": (
        {**CSV, "options": {"HEADER": True, "comment": "#"}},
        {
            "a plain.csv": "m,t\nm0,x\nm1,y\n",
            "b blank.csv": "\n \t\n\nm,t\n\nm2,x\n   \n\t\nm3,y\n\x01\n\n",
            "c comments.csv": "# first\n\n#second\nm,t\n#m\nm4,#x\n#\nm5,y\n# m",
            "d crlf.csv": "m,t\r\n\r\nm6,x\r\nm7,y\r\n",
            "e cr.csv": "m,t\rm8,x\r\rm9,y",
            "f mixed.csv": "m,t\nm10,x\r\nm11,y\rm12,z\n\r\nm13,w",
            "g mark.csv": b"\xef\xbb\xbf\r\nm,t\nm14,x\n",
            "h empty.csv": "",
            "i header only.csv": "\n\nm,t",
            "j 100%41+ü [1] {x,y} #.csv": "m,t\n\nm15,x\n",
            "k packed.csv.gz": gzip.compress(b"m,t\nm16,x\n\n", mtime=0) + gzip.compress(b"m17,y\n"),
            "l packed.csv.bz2": bz2.compress(b"\nm,t\n\nm18,x\n"),
            "m open quote.csv": 'm,t\nm19,"x\nm20,y"\nm21,"z""\n',
            "n many.csv": "m,t\n" + "".join(f"m{n},{'x' * (n % 40)}\n" + "\n" * (n % 3 == 0) for n in range(22, 500)),
        },
    ),
    "no_header": ({**CSV, "options": {"sep": "\t"}}, {"1.csv": "\nm0\tx\n\nm1\ty", "2.csv": "m2\tz\n"}),
    "separated": (
        {**CSV, "options": {"lineSep": "|", "header": "true"}},
        {"1.csv": "m,t|m0,x|\nm1,y| \n |\r\nm2,z\r\n|m3,w\n|\n"},
    ),
    "latin_1": (
        {**CSV, "options": {"encoding": "ISO-8859-1", "comment": "§"}},
        {"1.csv": "m0,ü\n§ m\nm1,ä\n"},
    ),
    "utf_16_lines": (
        {**CSV, "options": {"encoding": "UTF-16LE", "lineSep": "\n"}},
        {"1.csv": "m0,ü\n\nm1,Ċ਀\nm2,x"},
    ),
    "quoted": (
        {**CSV, "options": {"header": True, "multiLine": True, "comment": "#"}},
        {
            "1.csv": 'm,t\nm0,"x\n\n#y"\n\nm1,"a \\" b\n"\n# "m\nm2,"\\\\"\nm3,"c:\\dir\n"\n"m4","x"\n',
            "2.csv": 'm,t\r\n"m5","x\r\ny\nz\rw"\r\nm6,z"\r\n\r\nm7,"q"  \r\nm8,"a""b\r\n',
            "3.csv": 'm,t\nm9,"stray "quote"\nm10,"doubled "" here"\nm11,"ends doubled"""\nm12,"a" "b"\nm13,"\n\n\n"',
            "4.csv": "m,t\n" + "".join(f'm{n},"{chr(10) * (n % 4)}{"x" * (n % 50)}"\n' for n in range(14, 300)),
            "5.csv": "",
            "6.csv.gz": gzip.compress(b'm,t\nm300,"\n"\nm301,\n'),
        },
    ),
    "doubled": (
        {**CSV, "options": {"multiLine": True, "escape": '"', "ignoreLeadingWhiteSpace": True}},
        {"1.csv": '   \nm0, "x ""\n"\n  m1,"""\n"""\nm2,"\\"\nm3,\n', "2.csv": "\ufeffm4,x\nm5,y"},
    ),
    "utf_16": (
        {**CSV, "options": {"multiLine": True, "charset": "UTF-16", "quote": "'", "header": True}},
        {"1.csv": "\ufeffm,t\nm0,'ü\n'\n\nm1,x\n"},
    ),
    "lines_of_json": (
        JSON,
        {
            "a plain.json": '{"m": "m0"}\n{"m": "m1"}\n',
            "b blank.json": '\n  \n{"m": "m2"}\r\n\t\r\n  {"m": "m3", "t": "\\n"}',
            "c arrays.json": '[{"m": "m4"}, {"m": "m5", "t": "],[{"}]\n\n[]\n [{"m": "m6"}] \n{"m": "m7"}\n',
            "d mark.json": b'\xef\xbb\xbf\n{"m": "m8"}\n',
            "e empty.json": "",
            "f.json.gz": gzip.compress(b'\n{"m": "m9"}\n'),
        },
    ),
    "whole_json": (
        {**JSON, "options": {"multiLine": True}},
        {
            "a object.json": '\n\n {"m": "m0",\n "t": "x"}\n{"m": "not read"}\n',
            "b array.json": '[\n{"m": "m1",\n"t": "]}\\"\\n,"},\n\n  {"m": "m2"}, {"m": "m3"}\n,\n{"m":\t"m4"}\n]\n\n',
            "c nested.json": '[{"m": "m5", "u": [[1, 2],\n{"x": [{}, "\\\\"]}]},{"m": "m6"}]',
            "d single.json": "[{'m': 'm7', 't': 'it\\'s \"['},\n {'m': 'm8'}]",
            "e empty array.json": "[\n]\n",
            "f mark.json": b'\xef\xbb\xbf[\r\n{"m": "m9"},\r\n{"m": "m10"}]',
            "g many.json": "[" + ",\n".join(json.dumps({"m": f"m{n}", "t": "{" * (n % 9)}) for n in range(11, 900)) + "]",
            "h utf-16.json": '\n[{"m": "m900"},\n{"m": "m901"}]'.encode("utf-16-le"),
        },
    ),
}  # fmt: skip


def encoded(text: str | bytes, options: dict) -> bytes:
    if isinstance(text, bytes):
        return text
    name = options.get("encoding", options.get("charset", "utf-8"))
    return text.encode("utf-16-le" if name == "UTF-16" else name)


def plain(path: Path, options: dict) -> str:
    """The text of a file, however packed and encoded."""
    raw = path.read_bytes()
    raw = {".gz": gzip.decompress, ".bz2": bz2.decompress}.get(path.suffix, bytes)(raw)
    name = "utf-16-le" if "utf-16" in path.name else options.get("encoding", options.get("charset", "utf-8"))
    return raw.decode(name)


def true_places(folder: Path, options: dict) -> list[tuple[str, str, int, int]]:
    """Marker, file, row and line of every record, in the order of the files."""
    found = []
    for path in sorted(folder.iterdir(), key=str):
        text = plain(path, options)
        markers = [
            (marker, line)
            for line, content in enumerate(re.split(r"\r\n|\r|\n", text), 1)
            for marker in re.findall(r"\bm\d+\b", content)
        ]
        found += [(marker, str(path), row, line) for row, (marker, line) in enumerate(markers)]
    return found


@pytest.fixture(scope="module")
def opened(spark, tmp_path_factory):
    """Every source as a run opens it: its version and the folder of its original files."""
    folder = tmp_path_factory.mktemp("lines, 50% ü")
    home = HomeLayout(folder / "home")
    run = home.run_folder("r")
    run.temporary.mkdir(parents=True)
    opener = SourceOpener(spark, run, folder, lambda name: None, lambda identity: None)
    versions, size = {}, spark.conf.get("spark.sql.files.maxPartitionBytes")
    for name, (declared, files) in SOURCES.items():
        (folder / name).mkdir()
        for file, text in files.items():
            (folder / name / file).write_bytes(encoded(text, declared.get("options", {})))
        # Spark reads large files in blocks, several at a time: lines of CSV are read so too.
        spark.conf.set("spark.sql.files.maxPartitionBytes", "3000" if name == "lines_of_csv" else size)
        versions[name] = opener.open(name, SourceSpec(path=name, **declared), None).version
    return home, folder, versions


def markers(home: HomeLayout, version: Version) -> list[str]:
    scan = VersionScan(version, tuple(home.absolute(file.path) for file in version.files))
    return [row[0].strip() for row in duckdb.execute(f"SELECT m FROM ({scan.select(['m'])}) ORDER BY _rid").fetchall()]


@pytest.mark.parametrize("chunk", [original.CHUNK, 5])
@pytest.mark.parametrize("name", SOURCES)
def test_every_record_is_on_the_line_that_is_told(opened, monkeypatch, name, chunk):
    home, folder, versions = opened
    monkeypatch.setattr(original, "CHUNK", chunk)
    version, options = versions[name], SOURCES[name][0].get("options", {})
    found = places_at(version, range(version.rows), home.absolute)
    told = [(each.file, each.row, each.line, each.changed) for each in found]
    truth = true_places(folder / name, options)
    assert markers(home, version) == [marker for marker, *_ in truth]
    assert told == [(*rest, False) for _, *rest in truth]


def test_origins_count_the_records_of_each_file(opened):
    _, _, versions = opened
    version = versions["lines_of_csv"]
    assert [Path(origin.path).name for origin in version.origins] == list(SOURCES["lines_of_csv"][1])
    assert [origin.rows for origin in version.origins] == [2, 2, 2, 2, 2, 4, 1, 0, 0, 1, 2, 1, 3, 478]
    assert [origin.base for origin in version.origins][-5:] == [15, 16, 18, 19, 22]
    assert version.reading == {"header": "true", "comment": "#", "format": "csv"}
    assert Version.from_json(version.id, version.to_json()) == version


def test_places_come_in_the_order_asked_for(opened):
    home, _, versions = opened
    found = places_at(versions["lines_of_json"], [9, 0, 6, 0, 5], home.absolute)
    assert [(Path(each.file).name, each.row, each.line) for each in found] == [
        ("f.json.gz", 0, 2), ("a plain.json", 0, 1), ("c arrays.json", 2, 4), ("a plain.json", 0, 1),
        ("c arrays.json", 1, 1),
    ]  # fmt: skip


def version_of(path: Path, rows: int, **reading: str) -> Version:
    state = file_state(str(path))
    origin = OriginalFile(str(path), state.size, state.mtime_ns, state.fingerprint, rows, 0)
    copy = VersionFile("runs/r/sources/s/part-0.parquet", 9, 9, "", rows, 0, {})
    return Version("v", "snapshot", (copy,), (), origins=(origin,), reading=reading)


def test_no_line_is_told_of_a_file_that_changed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\nb\n", encoding="utf-8")
    version = version_of(path, 2, format="csv")
    assert places_at(version, [1], str) == [RowPlace(str(path), 1, 2, False)]
    stat = path.stat()
    path.write_text("\nb", encoding="utf-8")
    assert places_at(version, [1], str) == [RowPlace(str(path), 1, None, True)]
    path.write_text("a\nb\n", encoding="utf-8")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert places_at(version, [1], str) == [RowPlace(str(path), 1, 2, False)]
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert places_at(version, [1], str) == [RowPlace(str(path), 1, None, True)]
    path.unlink()
    assert places_at(version, [0], str) == [RowPlace(str(path), 0, None, True)]


@pytest.mark.parametrize(
    ("name", "content", "rows", "reading"),
    [
        ("more than Spark read.csv", b"a\nb\n", 1, {"format": "csv"}),
        ("fewer than Spark read.json", b'{}\n[]\n[{"a": 1}]\n', 4, {"format": "json"}),
        ("unclosed.json", b'[{"a": 1}', 1, {"format": "json", "multiline": "true"}),
        ("no object.json", b"1", 1, {"format": "json", "multiline": "true"}),
        ("with comments.json", b"{}\n", 1, {"format": "json", "allowcomments": "true"}),
        ("packed otherwise.csv.zst", b"a\n", 1, {"format": "csv"}),
        ("not packed.csv.gz", b"a\n", 1, {"format": "csv"}),
        ("cut.csv.gz", gzip.compress(b"a\n", mtime=0)[:-3], 1, {"format": "csv"}),
        ("not packed.csv.bz2", b"a\n", 1, {"format": "csv"}),
        ("encoded.csv", b"a\n", 1, {"format": "csv", "encoding": "no such"}),
        ("two bytes.csv", "a\n".encode("utf-16-le"), 1, {"format": "csv", "encoding": "UTF-16LE"}),
        ("separated.csv", b"a||b\n", 1, {"format": "csv", "multiline": "true", "sep": "||"}),
        ("stray.csv", b"a\n", 1, {"format": "csv", "multiline": "true", "unescapedquotehandling": "RAISE_ERROR"}),
        ("odd escapes.csv", b"a\n", 1, {"format": "csv", "multiline": "true", "chartoescapequoteescaping": "!"}),
        ("escape behind a quote.csv", b'"a"\\\nb\n', 1, {"format": "csv", "multiline": "true"}),
        ("mixed ends.csv", b"a\r\nb\nc\r\n", 2, {"format": "csv", "multiline": "true"}),
        ("copied.parquet", b"a\n", 1, {"format": "parquet"}),
    ],
)
def test_no_line_is_told_where_records_are_not_told_surely(tmp_path, name, content, rows, reading):
    path = tmp_path / name
    path.write_bytes(content)
    assert places_at(version_of(path, rows, **reading), [0], str) == [RowPlace(str(path), 0, None, False)]


def test_parquet_rows_have_a_file_and_a_row(spark, tmp_path):
    """Read in place and copied alike; an empty file in between holds nothing."""
    for name, numbers in {"1 a.parquet": [0, 1], "2.parquet": [], "3.parquet": [2, 3, 4]}.items():
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), tmp_path / "data" / name)
    home = HomeLayout(tmp_path / "home")
    opener = SourceOpener(spark, home.run_folder("r"), tmp_path, lambda name: None, lambda identity: None)
    first, third = str(tmp_path / "data" / "1 a.parquet"), str(tmp_path / "data" / "3.parquet")
    for snapshot in (False, True):
        version = opener.open("s", SourceSpec(path="data", snapshot=snapshot), None).version
        assert places_at(version, [4, 1, 2], home.absolute) == [
            RowPlace(third, 2, None, False), RowPlace(first, 1, None, False), RowPlace(third, 0, None, False),
        ]  # fmt: skip
    Path(third).unlink()
    assert places_at(version, [2, 0], home.absolute) == [
        RowPlace(third, 0, None, True), RowPlace(first, 0, None, False),
    ]  # fmt: skip
    assert [file_of(version.files, position) for position in range(5)] == [0, 0, 2, 2, 2]


def test_snapshots_of_older_homes_are_placed_in_their_copy(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\nb\n", encoding="utf-8")
    now = version_of(path, 2, format="csv")
    body = json.loads(now.to_json())
    del body["origins"], body["reading"]
    old = Version.from_json("v", json.dumps(body))
    assert old == replace(now, origins=(), reading={})
    copy = str(tmp_path / "runs/r/sources/s/part-0.parquet")
    assert places_at(old, [1], lambda inside: str(tmp_path / inside)) == [RowPlace(copy, 1, None, False)], (
        "ours: it does not change"
    )
