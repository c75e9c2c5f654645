"""Expressions of the protocol as columns of Spark Connect."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql.connect.column import Column as ConnectColumn
from pyspark.sql.connect.expressions import Expression

from lineage_service.plan.from_connect.messages import Message
from lineage_service.spark.connect.protobuf_messages import protobuf_message


class _MessageOfColumn(Expression):
    """An expression that is a message already."""

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._proto = protobuf_message(message)

    def to_plan(self, session: Any) -> Any:
        _ = session
        return self._proto

    def __repr__(self) -> str:
        return "message"


def message_column(message: Message) -> Column:
    """A column that Spark Connect evaluates as the message says. A session of classic Spark cannot use it."""
    column: Any = ConnectColumn(_MessageOfColumn(message))
    return column  # type: ignore[no-any-return]
