"""A program's session: what our part needs of it, without touching the program's own relations."""

from __future__ import annotations

import atexit
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lineage_service.plan.from_connect.messages import Message, Value
from lineage_service.spark.connect.protobuf_messages import protobuf_message
from lineage_service.spark.file_scan import escape_glob
from lineage_service.spark.file_schema import parse_schema_text
from lineage_service.spark.spark_session import ZONE
from lineage_service.spec.sql_parsing import deep_recursion

# Rows that are staged are read by other engines, too. What the program itself writes has the settings of its session.
STAGING_CONF = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
MOST_FILES = 1_000  # in one union: beyond, planning it takes longer than writing the rows


# Settings under which names and ordinals mean something else than the compiler takes them for.
_UNUSUAL = {
    "spark.sql.caseSensitive": "true", "spark.sql.groupByOrdinal": "false", "spark.sql.orderByOrdinal": "false",
    "spark.sql.groupByAliases": "false", "spark.sql.parser.quotedRegexColumnNames": "true",
}  # fmt: skip


def unusual_setting(own: SparkSession) -> str | None:
    """A setting of the session under which frames cannot be compiled."""
    return next((key for key, value in _UNUSUAL.items() if str(own.conf.get(key)).lower() == value), None)


class RejectedFrame(Exception):
    """A frame that Spark's analyser does not accept."""


class ProgramSession:
    """A session of a program, by its client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def id(self) -> str:
        return str(self._client._session_id)

    @contextmanager
    def clone(self) -> Iterator[SparkSession]:
        """A session with the settings, functions and views of the program's as they are now. What is asked of it
        changes nothing that the program will see.
        """
        self._client.get_configs(ZONE)  # the server knows a session from its first call on
        cloned = _session_of(self._client.clone())
        try:
            for key, value in STAGING_CONF.items():
                cloned.conf.set(key, value)
            yield cloned
        finally:
            with suppress(Exception):
                wait(cloned._client._release_futures, timeout=10)  # what comes later is an error in the server's log
                atexit.unregister(cloned._client._on_exit)  # which would ask for what the session no longer has
                cloned._client.release_session()  # stop() would also end a server in this process

    def write_rows(self, relation: Message, folder: str) -> None:
        """Writes the rows of a relation that the program has made of values of its own, in their order."""
        rows = _coalesced(relation, 1)
        write = Message("WriteOperation", {"input": rows, "source": "parquet", "path": folder,
                                           "mode": "SAVE_MODE_ERROR_IF_EXISTS"})  # fmt: skip
        self._client.execute_command(protobuf_message(Message("Command", {"write_operation": write})))


def _session_of(client: Any) -> Any:
    """The session of a client, made as PySpark makes that of a clone. It closes its client when nobody holds it."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session = object.__new__(ConnectSession)
    session._client = client
    session._session_id = client._session_id
    session.release_session_on_close = True
    return session


def schema_in_spark(own: SparkSession, relation: Message) -> StructType:
    """The schema of a frame, by a copy of it in a session of our own: Spark remembers what it was asked
    of the frames of a session. Raises RejectedFrame where it cannot be analysed.
    """
    client: Any = own._client  # type: ignore[attr-defined]
    plan = protobuf_message(Message("Plan", {"root": _renumbered(relation)}))
    try:
        schema: StructType = client.schema(plan)
    except PySparkException as error:
        raise RejectedFrame from error
    return schema


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """Names and types of columns."""
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


_BEYOND = 1 << 40  # plan ids that no program reaches


def _renumbered(message: Message) -> Message:
    """The relation under plan ids of its own."""
    with deep_recursion():
        other = _with_other_ids(message)
    assert isinstance(other, Message)
    return other


def _with_other_ids(value: Any) -> Any:
    match value:
        case Message():
            return Message(
                value.type,
                {
                    name: each + _BEYOND if name == "plan_id" and isinstance(each, int) else _with_other_ids(each)
                    for name, each in value.fields.items()
                },
            )
        case tuple():
            return tuple(map(_with_other_ids, value))
        case Mapping():
            return {key: _with_other_ids(each) for key, each in value.items()}
        case _:
            return value


def ddl_of_schema(text: str) -> str | None:
    """The schema of a reader, JSON or DDL, as DDL; None for no schema."""
    if not text:
        return None
    schema = StructType.fromJson(json.loads(text)) if text.lstrip().startswith("{") else parse_schema_text(text)
    return ", ".join(f"`{each.name.replace('`', '``')}` {each.dataType.simpleString()}" for each in schema.fields)


def staged_rows(files: Sequence[str], schema: StructType, most: int | None = None) -> Message:
    """The relation that reads staged files one after the other: rows in the order of the files, one partition for
    each, or `most` partitions of neighbouring files. A scan of all files together would begin with the largest.
    """
    parts = [_file_rows(file, schema) for file in files]
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [pair[0] if len(pair) == 1 else _union(*pair) for pair in pairs]
    return _coalesced(parts[0], min(len(files), most or len(files)))


def _file_rows(file: str, schema: StructType) -> Message:
    source = Message("Read.DataSource", {"format": "parquet", "schema": schema.json(), "paths": (escape_glob(file),)})
    read = Message("Relation", {"read": Message("Read", {"data_source": source})})
    columns = tuple(_attribute(name) for name in schema.names)
    return Message("Relation", {"project": Message("Project", {"input": read, "expressions": columns})})


def _attribute(name: str) -> Message:
    quoted = f"`{name.replace('`', '``')}`"
    found = Message("Expression.UnresolvedAttribute", {"unparsed_identifier": quoted})
    return Message("Expression", {"unresolved_attribute": found})


def _union(left: Message, right: Message) -> Message:
    fields: dict[str, Value] = {
        "left_input": left,
        "right_input": right,
        "set_op_type": "SET_OP_TYPE_UNION",
        "is_all": True,
    }
    return Message("Relation", {"set_op": Message("SetOperation", fields)})


def _coalesced(rows: Message, partitions: int) -> Message:
    """A large file is read in several parts, which stay one."""
    fields: dict[str, Value] = {"input": rows, "num_partitions": partitions, "shuffle": False}
    return Message("Relation", {"repartition": Message("Repartition", fields)})
