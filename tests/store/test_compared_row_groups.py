"""A look-up of some ids compares, and believes, just the row groups that can hold them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog import models
from lineage_catalog.engine import connect
from sqlalchemy import insert, update

from lineage_service.errors import DamagedFile
from lineage_service.store import checksums, file_sums
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

ROWS, GROUP, PER_ROW = 100, 100, 10  # pairs of ten rows of the output in each row group


@pytest.fixture(params=["file", "folder"])
def made(request, tmp_path, monkeypatch):
    """A home with an index of ten row groups, as DuckDB (a file) or Spark (a folder of files) writes it."""
    monkeypatch.setattr(file_sums, "WHOLE", 0)
    checksums.forget()
    made = MadeHome(tmp_path / "home")
    pairs = [(a, a * PER_ROW + k) for a in range(ROWS) for k in range(PER_ROW)]
    rows = {"source": pa.table({"x": range(ROWS * PER_ROW)}), "out": pa.table({"y": range(ROWS)})}
    datasets = {"source": Made(rows["source"], "source"), "out": Made(rows["out"], hops={"source": pairs})}
    run_id = made.run("w", datasets)
    folder = made.folder / "runs" / run_id
    for direction in ("backward", "forward"):
        file = next(folder.glob(f"index/*.{direction}.parquet"))
        table = pq.read_table(file)
        file.unlink()
        if request.param == "file":
            files = {file: table}
        else:
            file.with_suffix("").mkdir()
            files = {file.with_suffix("") / f"part-{n}.parquet": table.slice(n * 500, 500) for n in range(2)}
        for path, part in files.items():
            # As they are in memory, so that a test can exchange a number.
            options = {"use_dictionary": False, "compression": "none", "column_encoding": "PLAIN"}
            pq.write_table(part, path, row_group_size=GROUP, **options)
    engine = connect(made.url)
    with engine.begin() as connection:
        if request.param == "folder":
            for name in ("backward", "forward"):
                column = models.hops.c[name]
                path = str(next(folder.glob(f"index/*.{name}")).relative_to(made.folder))
                connection.execute(update(models.hops).values({column: path}))
        for path in sorted(folder.rglob("*.parquet")):
            sums = checksums.sums_of(path).to_json()
            connection.execute(
                insert(models.run_files).values(run_id=run_id, path=str(path.relative_to(folder)), sums=sums)
            )
        seal_anew(connection)
    engine.dispose()
    return made


def exchange(made, direction, column, old, new):
    """Makes one id of a file another, where it stands: neither length nor statistics change."""
    for path in sorted(made.folder.rglob("*.parquet")):
        if f".{direction}" not in str(path):
            continue
        content, metadata = bytearray(path.read_bytes()), pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            chunk = metadata.row_group(number).column(column)
            place = content.find(
                old.to_bytes(8, "little"), chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
            )
            if chunk.statistics.min < old < chunk.statistics.max and place >= 0:
                content[place : place + 8] = new.to_bytes(8, "little")
                path.write_bytes(content)
                return path
    raise AssertionError("not found")


def asked(made, direction, ids, **shape):
    checksums.forget()
    with made.home as home:
        ask = home.backward if direction == "backward" else home.forward
        start, end = ("out", "source") if direction == "backward" else ("source", "out")
        return [tuple(row.values()) for row in ask(start, to=end, rid=ids, **shape).to_pylist()]


IDS = {"backward": ([93, 3, 41], [13, 55]), "forward": ([931, 35, 411], [135, 551])}


def right(direction, ids):
    if direction == "forward":
        return sorted((each // PER_ROW, each) for each in ids)
    return sorted((each, each * PER_ROW + k) for each in ids for k in range(PER_ROW))


@pytest.mark.parametrize("direction", IDS)
def test_other_row_groups_are_neither_compared_nor_believed(made, direction):
    ids, others = IDS[direction]
    assert asked(made, direction, ids, pairs=True) == right(direction, ids)
    damaged = exchange(made, direction, 0 if direction == "backward" else 1, others[0], ids[0])
    assert asked(made, direction, ids, pairs=True) == right(direction, ids)
    with pytest.raises(DamagedFile, match=damaged.name):
        asked(made, direction, others, pairs=True)
    with pytest.raises(DamagedFile, match=damaged.name):
        asked(made, direction, None, all=True, pairs=True)


@pytest.mark.parametrize("direction", IDS)
def test_an_id_that_no_row_group_holds(made, direction):
    """Beside the pairs of rows that have none, in an index without them."""
    column = 0 if direction == "backward" else 1
    paths = [str(path) for path in made.folder.rglob("*.parquet") if f".{direction}" in str(path)]
    assert paths
    for path in paths:
        assert checksums.verify_values(path, "ab"[column], [ROWS * PER_ROW]) is None  # nobody asks a catalog
    with made.home as home:
        home.runs()
        for path in paths:
            assert checksums.verify_values(path, "ab"[column], [ROWS * PER_ROW]) == []


@pytest.mark.parametrize("direction", IDS)
def test_pairs_of_some_rows_are_in_order(made, direction):
    ids = list(range(ROWS if direction == "backward" else ROWS * PER_ROW))[:: 9 if direction == "backward" else 90]
    assert asked(made, direction, ids[::-1], pairs=True) == right(direction, ids)


def test_bytes_compared_are_those_of_the_row_groups_asked_for(made, monkeypatch):
    compared = []
    crc = file_sums._crc
    monkeypatch.setattr(
        file_sums, "_crc", lambda content, before=0: (compared.append(len(content)), crc(content, before))[1]
    )
    size = sum(path.stat().st_size for path in made.folder.rglob("*.parquet") if ".backward" in str(path))
    asked(made, "backward", [3, 4], pairs=True)
    few = sum(compared)
    assert 0 < few < size * 0.8  # the footer is a large part of so small a file
    compared.clear()
    asked(made, "backward", None, all=True, pairs=True)
    assert sum(compared) >= size
