"""The only place that touches Spark Connect's client class: what a program sends to Spark passes through here.

The protocol is public, the client class is not. tests/spark/connect/test_program_client.py names what has moved when a
new PySpark moves it.
"""

from __future__ import annotations

import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

from lineage_service.plan.from_connect.messages import Message
from lineage_service.spark.connect.program_session import ProgramSession
from lineage_service.spark.connect.protobuf_messages import plain_message, protobuf_message

Lines = dict[int, tuple[str, int]]
_OURS = "_made_by_smoke_lineage"


class ProgramListener(Protocol):
    """What is told of a program's calls."""

    def on_relation(self, session: ProgramSession, relation: Message) -> None:
        """Called before a relation of the program is analysed or executed."""

    def on_persist(self, session: ProgramSession, relation: Message) -> None:
        """Called before a relation of the program is cached."""

    def on_settings(self, session: ProgramSession, changed: Mapping[str, str | None]) -> None:
        """Called before the program sets settings of its session, or with None unsets them."""

    def on_stop(self) -> None:
        """Called before the program stops a session."""

    def on_command(self, session: ProgramSession, command: Message, proceed: Callable[[Message | None], Any]) -> Any:
        """Called instead of a command of the program. `proceed` sends the command, or another one in its place, and
        returns the client's answer.
        """


class ProgramClient:
    """The client of a program's session, listened to. Clients of sessions of our own are left alone."""

    def __init__(self, listener: ProgramListener) -> None:
        self.listener = listener
        self.lines: Lines = {}
        self._state = threading.local()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Listens to all clients of this process for as long as the block runs."""
        from pyspark.sql.connect.client.core import DefaultChannelBuilder, SparkConnectClient
        from pyspark.sql.connect.plan import LogicalPlan
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        with ExitStack() as patches:
            for name in ("execute_command", "execute_command_as_iterator"):
                patches.enter_context(patch.object(SparkConnectClient, name, self._command(SparkConnectClient, name)))
            for name, replacement in (
                ("__init__", self._init(SparkConnectClient)),
                ("_analyze", self._analyze(SparkConnectClient)),
                ("config", self._config(SparkConnectClient)),
                ("_execute_and_fetch_as_iterator", self._fetch(SparkConnectClient)),
            ):
                patches.enter_context(patch.object(SparkConnectClient, name, replacement))
            patches.enter_context(patch.object(ConnectSession, "stop", self._stop(ConnectSession)))
            patches.enter_context(patch.object(LogicalPlan, "_fresh_plan_id", staticmethod(self._plan_id(LogicalPlan))))
            if _free_port:
                patches.enter_context(
                    patch.object(DefaultChannelBuilder, "default_port", staticmethod(lambda: _free_port[-1]))
                )
            yield

    @contextmanager
    def our_calls(self) -> Iterator[None]:
        """Calls of this thread inside the block are ours, and not the program's."""
        before = self._is_our_thread
        self._state.ours = True
        try:
            yield
        finally:
            self._state.ours = before

    @property
    def _is_our_thread(self) -> bool:
        return bool(getattr(self._state, "ours", False))

    def _is_ours(self, client: Any) -> bool:
        """Whether a call is ours: by a session that we have made, whatever the thread, or inside our_calls()."""
        return self._is_our_thread or getattr(client, _OURS, False)

    def _init(self, kind: Any) -> Callable[..., None]:
        original = kind.__init__

        def init(client: Any, *args: Any, **given: Any) -> None:
            original(client, *args, **given)
            if self._is_our_thread:
                setattr(client, _OURS, True)

        return init

    def _command(self, kind: Any, name: str) -> Callable[..., Any]:
        original = getattr(kind, name)

        def execute(client: Any, command: Any, *args: Any, **given: Any) -> Any:
            if self._is_ours(client):
                return original(client, command, *args, **given)

            def proceed(other: Message | None) -> Any:
                with self.our_calls():
                    return original(client, command if other is None else protobuf_message(other), *args, **given)

            with self.our_calls():
                return self.listener.on_command(ProgramSession(client), plain_message(command), proceed)

        return execute

    def _analyze(self, kind: Any) -> Callable[..., Any]:
        original = kind._analyze

        def analyze(client: Any, method: str, **given: Any) -> Any:
            if not self._is_ours(client):
                for name in ("plan", "other", "relation"):
                    if name in given:
                        self._tell(client, given[name], cached=method == "persist")
            return original(client, method, **given)

        return analyze

    def _config(self, kind: Any) -> Callable[..., Any]:
        original = kind.config

        def config(client: Any, operation: Any, *args: Any, **given: Any) -> Any:
            if not self._is_ours(client):
                changed = {each.key: each.value for each in operation.set.pairs}
                changed |= dict.fromkeys(operation.unset.keys)
                if changed:
                    with self.our_calls():
                        self.listener.on_settings(ProgramSession(client), changed)
            return original(client, operation, *args, **given)

        return config

    def _tell(self, client: Any, proto: Any, *, cached: bool) -> None:
        with self.our_calls(), suppress(RecursionError):
            message = plain_message(proto)
            relation = message if message.type == "Relation" else message.message("root")
            if relation is not None:
                tell = self.listener.on_persist if cached else self.listener.on_relation
                tell(ProgramSession(client), relation)

    def _fetch(self, kind: Any) -> Callable[..., Any]:
        original = kind._execute_and_fetch_as_iterator

        def fetch(client: Any, request: Any, *args: Any, **given: Any) -> Any:
            if not self._is_ours(client) and request.plan.HasField("root"):
                self._tell(client, request.plan.root, cached=False)
            return original(client, request, *args, **given)

        return fetch

    def _stop(self, kind: Any) -> Callable[..., None]:
        original = kind.stop

        def stop(session: Any) -> None:
            if not self._is_ours(session._client):
                with self.our_calls():
                    self.listener.on_stop()
            original(session)

        return stop

    def _plan_id(self, kind: Any) -> Callable[[], int]:
        original = kind._fresh_plan_id

        def fresh() -> int:
            number: int = original()
            self.lines[number] = program_line()
            return number

        return fresh


_LIBRARIES = tuple(
    str(Path(each).parent) + os.sep for each in (sys.modules["pyspark"].__file__, Path(__file__).parents[1]) if each
)


def program_line() -> tuple[str, int]:
    """The file and line of the nearest call that is neither PySpark's nor ours."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


_free_port: list[int] = []  # on which a server of this process listens; empty where PySpark chooses one


def use_free_port(conf: Mapping[str, str]) -> None:
    """Lets a Connect server that the program starts in this process listen on a free port, so that two programs can run
    at the same time. `conf`: further settings of Spark.
    """
    settings = {"spark.connect.grpc.binding.address": "127.0.0.1", **conf}
    if "SPARK_TESTING" not in os.environ:  # else PySpark lets the server choose a port, and asks it
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            _free_port.append(probe.getsockname()[1])
        settings["spark.connect.grpc.binding.port"] = str(_free_port[-1])
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell").removesuffix("pyspark-shell")
    words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{given} {shlex.join(words)} pyspark-shell"
