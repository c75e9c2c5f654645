"""Runs workflows for tests: tables to Parquet files, steps to a workflow file, a real run, and what it answers."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from lineage_service import Home
from tests.oracle.reference import Map, canonical

_PLAIN = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "DATE": pa.date32(), "BINARY": pa.binary(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"), "TIMESTAMPTZ": pa.timestamp("us", tz="UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", tz="UTC"), "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip


def arrow_type(kind: exp.DataType) -> pa.DataType:
    """A Spark type as Arrow's."""
    name = kind.this.name
    if name in ("TEXT", "VARCHAR", "CHAR"):
        return pa.string()
    if name == "DECIMAL":
        precision, scale = (int(each.name) for each in kind.expressions)
        return pa.decimal128(precision, scale)
    if name == "ARRAY":
        return pa.list_(arrow_type(kind.expressions[0]))
    if name == "MAP":
        return pa.map_(*(arrow_type(each) for each in kind.expressions))
    if name == "STRUCT":
        return pa.struct([(each.name, arrow_type(each.args["kind"])) for each in kind.expressions])
    return _PLAIN[name]


def arrow_schema(schema: dict[str, str]) -> pa.Schema:
    fields = []
    for name, text in schema.items():
        kind = sqlglot.parse_one(f"CAST(x AS {text})", dialect="spark").args["to"]
        fields.append((name, arrow_type(kind)))
    return pa.schema(fields)


def arrow_value(value: object) -> object:
    """A value as pyarrow takes it: maps as pairs, naive timestamps as UTC."""
    if isinstance(value, Map):
        return [(arrow_value(key), arrow_value(item)) for key, item in value.items()]
    if isinstance(value, dict):
        return {key: arrow_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [arrow_value(item) for item in value]
    return value


def write_table(folder: Path, schema: dict[str, str], files: list[list[dict]]) -> None:
    """One Parquet file per list of rows, in order of their names; a name with what breaks naive code in it."""
    folder.mkdir(parents=True)
    wanted = arrow_schema(schema)
    for number, rows in enumerate(files):
        columns = [
            pa.array([arrow_value(row[name]) for row in rows], type=kind)
            for name, kind in zip(schema, wanted.types, strict=True)
        ]
        # Spark trusts the statistics of a file, and Arrow's say nothing of NaN: `x > 1` pushed down loses such rows,
        # in plain Spark as here. The oracle knows no statistics, so columns that can hold NaN have none.
        exact = [name for name, kind in zip(schema, wanted.types, strict=True) if not pa.types.is_floating(kind)]
        pq.write_table(
            pa.Table.from_arrays(columns, schema=wanted),
            folder / f"part {number:03d} 100%ü.parquet",
            write_statistics=exact,
        )


@dataclass
class Flow:
    """A workflow for a test. `files` are the tables' rows, file by file; a row's rid is its position."""

    schemas: dict[str, dict[str, str]]
    files: dict[str, list[list[dict]]]
    steps: list[dict]
    outputs: list[str]
    keep: list[str] = field(default_factory=list)
    name: str = "flow"

    def write(self, folder: Path) -> Path:
        sources = {}
        for table, files in self.files.items():
            write_table(folder / "data" / table, self.schemas[table], files)
            sources[table] = {"path": f"data/{table}"}
        body = {
            "version": 1,
            "name": self.name,
            "sources": sources,
            "steps": self.steps,
            "outputs": {name: {} for name in self.outputs},
            "lineage": {"keep": self.keep},
        }
        path = folder / "flow.yml"
        path.write_text(json.dumps(body, default=str), encoding="utf-8")  # JSON is YAML
        return path


@dataclass
class Traced:
    """An output row of a run: its values and, per source, the rids behind it; `peers` are those of role peer."""

    rid: int
    values: dict[str, object]
    lineage: dict[str, frozenset[int]]
    peers: dict[str, frozenset[int]]


def traced_rows(home: Home, output: str, sources: list[str], run: str, *, dense: bool = True) -> list[Traced]:
    """All rows of an output with their lineage, read as a user would; forward must be the inverse of backward."""
    table = home.rows(f"{output}@{run}").arrow()
    rows = [
        {name: with_maps(value, table.schema.field(name).type) for name, value in row.items()}
        for row in table.to_pylist()
    ]
    lineage: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    peers: dict[int, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    linked = {name.partition(".")[2] for name in _linked(home, f"{output}@{run}")}
    for source in sources:
        if source not in linked:
            continue
        back = home.backward(f"{output}@{run}", to=source, all=True, pairs=True, roles=True).arrow()
        ahead = home.forward(f"{source}@{run}", to=f"{output}@{run}", all=True, pairs=True, roles=True).arrow()
        pairs = list(zip(*(back.column(name).to_pylist() for name in ("out_rid", "rid", "role")), strict=True))
        inverse = list(zip(*(ahead.column(name).to_pylist() for name in ("out_rid", "rid", "role")), strict=True))
        assert len(set(pairs)) == len(pairs), "pairs are distinct"
        assert sorted(pairs) == sorted(inverse), f"forward is not the inverse of backward: {output} to {source}"
        for out, rid, role in pairs:
            lineage[out][source].add(rid)
            if role == "peer":
                peers[out][source].add(rid)
    found = []
    for position, row in enumerate(rows):
        rid = row.pop("_rid")
        assert rid == position or not dense, "rids of a fresh output are dense and in order"
        own = {name: frozenset(rids) for name, rids in lineage.pop(rid, {}).items()}
        found.append(Traced(rid, row, own, {name: frozenset(rids) for name, rids in peers.pop(rid, {}).items()}))
    assert not lineage, "pairs of rows that do not exist"
    return found


def _linked(home: Home, output: str) -> list[str]:
    return home.backward(output, all=True).arrow().column("dataset").to_pylist()


def absence_of(home: Home, output: str) -> set[str]:
    """Sources that have no pairs with the output, but influence it by the absence of a match."""
    return {name.partition(".")[2] for name in home.backward(output, all=True).absence}


def with_maps(value: object, kind: pa.DataType) -> object:
    """A value of Arrow with its maps as Map: Arrow gives them as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return Map((with_maps(key, kind.key_type), with_maps(item, kind.item_type)) for key, item in value)
    if pa.types.is_list(kind):
        return [with_maps(item, kind.value_type) for item in value]
    if pa.types.is_struct(kind):
        return {field.name: with_maps(value[field.name], field.type) for field in kind}
    return value


def comparable(values: dict[str, object]) -> object:
    """Values in a form that compares as Spark groups: NaN equals NaN, -0.0 equals 0.0, order of map entries is none."""
    return canonical({name: _plain(value) for name, value in values.items()})


def _plain(value: object) -> object:
    if isinstance(value, Map):
        return Map((_plain(key), _plain(item)) for key, item in value.items())
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, float) and not math.isnan(value) and not math.isinf(value):
        return float(f"{value:.10g}")
    if isinstance(value, Decimal):
        return value.normalize() + 0
    return value


def safe(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def merged_flow(plans: list, name: str) -> Flow:
    """Several plans, whose names do not clash, as one workflow."""
    flow = Flow({}, {}, [], [], [], name)
    for plan in plans:
        flow.schemas |= plan.schemas
        flow.files |= plan.files
        flow.steps += plan.steps
        flow.outputs += plan.outputs
        flow.keep += plan.keep
    return flow
