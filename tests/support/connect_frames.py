"""Data frames of Spark Connect for tests: made without a server, compiled, and compared with what Spark gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from lineage_service.capture.instrument import instrument
from lineage_service.plan.build import Plan
from lineage_service.plan.from_connect.messages import Message
from lineage_service.plan.from_connect.program_reads import ProgramRead, with_references
from lineage_service.plan.from_connect.relation_compiler import compile_relation
from lineage_service.plan.from_connect.source_references import source_reference
from lineage_service.plan.nodes import Node, Source
from lineage_service.plan.schema import Column, Schema

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the version of pandas
    import pyspark.sql.connect.session


class _NoServer:
    """A client that no frame may ask anything."""

    _session_id = "00000000-0000-0000-0000-000000000000"

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the data frame asks the server: {name}")


def session_without_server() -> Any:
    """A Connect session that makes plans and can do nothing else."""
    session = pyspark.sql.connect.session.SparkSession.__new__(pyspark.sql.connect.session.SparkSession)
    session._client = _NoServer()  # type: ignore[assignment]
    session._session_id = _NoServer._session_id
    session.is_mock_session = True
    return session


def sql_frame(session: Any, query: str, args: Any = None) -> Any:
    """The frame that spark.sql() gives. It asks the server, which gives back what it was asked."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.functions import lit
    from pyspark.sql.connect.plan import SQL

    if isinstance(args, dict):
        return DataFrame(SQL(query, named_args={name: lit(value) for name, value in args.items()}), session)
    return DataFrame(SQL(query, args=[lit(value) for value in args or ()]), session)


def message_of(frame: Any) -> Message:
    """The relation of a data frame."""
    from lineage_service.spark.connect.protobuf_messages import plain_message

    return plain_message(frame._plan.plan(frame._session.client if hasattr(frame, "_session") else None))


def source(name: str, /, **columns: str) -> Source:
    return Source(name, name, None, Schema(tuple(Column(column, type_) for column, type_ in columns.items())))


def with_tables_as_sources(root: Message) -> Message:
    """Tables that are read by name as references to sources of the same name."""

    def reference(read: ProgramRead) -> Message | None:
        if read.kind != "table":
            return None
        (name,) = read.tables
        return source_reference(name, (name,), read.plan_id)

    return with_references(root, reference)


def compiled(
    frame: Any, sources: Mapping[str, Node | Message], *, names: list[str] | None = None, lines: Any = None
) -> Node:
    return compile_relation(with_tables_as_sources(message_of(frame)), "out", None, sources, lines, names)


def lowered(session: Any, node: Node, sources: Mapping[str, Source]) -> Any:
    """The data frame of a plan, without capture."""
    from lineage_service.spark.capture_columns import CaptureColumnNames
    from lineage_service.spark.lowering import lower_plan
    from lineage_service.spark.relation import Relation
    from lineage_service.spark.staging import Rehearsal

    plan = Plan("test", dict(sources), {"out": node}, {"out": "out"}, ())
    names = CaptureColumnNames("_smoke_")
    relations = {name: Relation(session.table(name), each.schema.names, 0) for name, each in sources.items()}
    return lower_plan(instrument(plan, "off"), relations, Rehearsal(names, 1), names)["out"].frame


def difference(session: Any, frame: Any, sources: Mapping[str, Source], *, ordered: bool = False) -> str | None:
    """What the compiled frame gives otherwise than the program's own: names, types or rows; None for nothing."""
    node = compiled(frame, sources)
    ours, theirs = lowered(session, node, sources), frame
    own, wanted = ([(each.name, each.dataType.simpleString()) for each in one.schema] for one in (ours, theirs))
    if own != wanted:
        return f"columns {own} instead of {wanted}"
    arrange: Callable[[Any], Any] = list if ordered else lambda rows: sorted(rows, key=repr)
    found, expected = (arrange([repr(tuple(row)) for row in one.collect()]) for one in (ours, theirs))
    return None if found == expected else f"rows {found} instead of {expected}"
