"""What a program has made of its session so far: views, cached frames, and what it saw when it first looked at a frame.

Spark keeps more than the plans say. A frame that was analysed keeps its list of files and the views of that moment, a
view keeps the plan that it was made of, and a cached frame keeps its rows. A fresh evaluation of a frame is what the
program will see only where none of that differs from now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lineage_service.errors import Position
from lineage_service.plan import functions
from lineage_service.plan.from_connect.messages import Message, kind_of
from lineage_service.plan.from_connect.program_reads import read_in
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.dataset_places import absolute_place
from lineage_service.programs.file_states import States, states_below

PositionOf = Callable[[Message], Position]

# Relations whose rows are the same whenever they are computed over the same rows.
_REPEATABLE = frozenset({
    "read", "local_relation", "cached_local_relation", "chunked_cached_local_relation", "range", "project", "filter",
    "with_columns", "with_columns_renamed", "drop", "join", "aggregate", "set_op", "subquery_alias", "to_df",
    "to_schema", "sort", "repartition", "repartition_by_expression", "hint", "fill_na", "drop_na", "replace", "unpivot",
    "collect_metrics",
})  # fmt: skip
_TEMP_VIEW = re.compile(
    r"\s*create\s+(?:or\s+replace\s+)?temp(?:orary)?\s+view\s+(?:if\s+not\s+exists\s+)?"
    r"(?P<name>`[^`]+`|\w+)\s+as\b(?P<query>.*)", re.IGNORECASE | re.DOTALL
)  # fmt: skip
_WRITING = re.compile(
    r"\s*(insert|merge|update|delete|truncate|load|replace\s+table|create\s+(or\s+replace\s+)?table|with\b.*\binsert)\b",
    re.IGNORECASE | re.DOTALL,
)
_CACHING = re.compile(r"\s*cache\s+(lazy\s+)?table\s+(?P<name>`[^`]+`|[\w.]+)\s*;?\s*\Z", re.IGNORECASE)
_VIEW = re.compile(r"\b(view|cache|refresh)\b", re.IGNORECASE)
_QUERY = re.compile(r"[\s(]*(select|with|from|values|table|explain|describe|show)\b", re.IGNORECASE)
_SETTING = re.compile(r"\s*(set|reset)\b", re.IGNORECASE)
# Settings that change how a frame is computed or written, and not its rows.
_HARMLESS = ("spark.sql.shuffle.", "spark.sql.adaptive.", "spark.sql.execution.", "spark.sql.files.max",
             "spark.sql.autoBroadcastJoinThreshold", "spark.sql.broadcastTimeout", "spark.sql.optimizer.",
             "spark.sql.codegen.", "spark.sql.sources.partitionOverwriteMode", "spark.sql.parquet.compression.codec",
             "spark.sql.repl.")  # fmt: skip
_LEFT_OUT = frozenset({"common"})  # ids and lines, by which frames differ that are made alike


@dataclass(frozen=True, eq=False)
class View:
    """A temporary view. `made_of`: the views that its plan had found when it was made; empty for a view made by SQL,
    whose text is read again each time. `settings`: those of the session when it was made, which Spark keeps for it.
    """

    relation: Message
    made_of: Mapping[str, View | None] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a read meant when the program first looked at a frame with it."""

    files: States
    views: Mapping[str, View | None]


@dataclass(frozen=True, slots=True)
class CachedFrame:
    """A frame that the program has cached. `files`: those that it reads, when it was cached; `is_repeatable`: whether
    it has the same rows whenever it is computed over these.
    """

    position: Position
    files: States
    is_repeatable: bool


@dataclass
class SessionState:
    """The state of one session of a program.

    looks: by plan id
    cached: frames that it has cached, by their shape
    registered: functions that it has registered by name
    settings: what it has set that may change what a frame means
    """

    views: dict[str, View] = field(default_factory=dict)
    looks: dict[int, FirstLook] = field(default_factory=dict)
    cached: dict[str, CachedFrame] = field(default_factory=dict)
    registered: set[str] = field(default_factory=set)
    settings: dict[str, str] = field(default_factory=dict)

    def note_settings(self, changed: Mapping[str, str | None]) -> None:
        """Notes settings of the session that the program sets, or with None unsets."""
        for key, value in changed.items():
            if not key.startswith(_HARMLESS):
                self.settings.pop(key, None)
                self.settings |= {} if value is None else {key: value}

    def look(self, relation: Message) -> None:
        """Notes what the reads of a frame mean, the first time that the program has it analysed or executed."""
        for each in relation.walk():
            number = plan_id(each)
            if each.type == "Relation" and number is not None and number not in self.looks and _is_read(each):
                self.looks[number] = FirstLook(states_below(paths_of(each)), self._views_in(each))

    def define_view(self, name: str, relation: Message, *, is_text: bool) -> None:
        """`is_text`: made by SQL. The plan of any other view is fixed with it."""
        if not is_text:
            self.look(relation)
        made_of: dict[str, View | None] = {}
        for each in _reads(relation) if not is_text else ():
            made_of |= self._views_in(each)
        self.views[name.lower()] = View(relation, made_of, dict(self.settings))

    def cache(self, relation: Message, position: Position) -> None:
        self.look(relation)
        behind = list(self._with_views(relation))
        files = frozenset[tuple[str, int, int]]().union(*map(_files_of, behind))
        frame = CachedFrame(position, files, all(map(is_repeatable, behind)))
        self.cached.setdefault(shape_of(relation), frame)  # Spark does not cache it again

    def note_sql(self, text: str, relation: Message | None, position: Position) -> None:
        """Notes what a command of SQL does to views and caches. What is not understood makes all views unknown."""
        view, cached = _TEMP_VIEW.match(text), _CACHING.match(text)
        if _SETTING.match(text):
            self.settings[""] = f"{self.settings.get('', '')};{text}"
        elif view is not None:
            common = relation.message("common") if relation is not None else None
            query = Message("Relation", {**({"common": common} if common is not None else {}),
                                         "sql": Message("SQL", {"query": view["query"].strip()})})  # fmt: skip
            self.define_view(view["name"].strip("`"), query, is_text=True)
        elif cached is not None and cached["name"].strip("`").lower() in self.views:
            self.cache(self.views[cached["name"].strip("`").lower()].relation, position)
        elif cached is not None or (_VIEW.search(text) and not _QUERY.match(text)):
            self.views.clear()

    def note_catalog(self, relation: Message) -> None:
        """Notes what a call of spark.catalog does to views and caches."""
        for each in relation.walk():
            if each.type == "DropTempView":
                self.views.pop(each.text("view_name").lower(), None)
            elif each.type in ("CacheTable", "RefreshTable", "RefreshByPath", "CreateTable", "CreateExternalTable"):
                self.views.clear()

    def refuse_unknown(self, relation: Message, position_of: PositionOf) -> None:
        """Raises Untraceable where a frame may see other rows than a fresh evaluation gives."""
        hidden = sorted(self.registered & functions.KNOWN)
        if hidden:
            raise Untraceable(f"the program has registered a function '{hidden[0]}', which hides Spark's own", None)
        waiting, seen = [relation], set[int]()
        while waiting:
            root = waiting.pop()
            if any(each.type == "CollectMetrics" for each in root.walk()):
                raise Untraceable("it is observed, and the metrics come with the program's own write", None)
            self._refuse_cached(root)
            for each in _reads(root):
                self._refuse_changed(each, position_of)
                for name, view in self._views_in(each).items():
                    if view is None or id(view) in seen:
                        continue
                    seen.add(id(view))
                    if any(self.views.get(key) is not before for key, before in view.made_of.items()):
                        raise Untraceable(f"a view has changed since view '{name}' was made of it", position_of(each))
                    if view.settings != self.settings:
                        raise Untraceable(
                            f"settings of the session have changed since view '{name}' was made", position_of(each)
                        )
                    waiting.append(view.relation)

    def _refuse_changed(self, read: Message, position_of: PositionOf) -> None:
        number = plan_id(read)
        look = self.looks.get(number) if number is not None else None
        if look is None:
            return
        if look.files != states_below(paths_of(read)):
            raise Untraceable(
                "files that it reads have changed since the program first looked at the frame", position_of(read)
            )
        if any(self.views.get(name) is not view for name, view in look.views.items()):
            raise Untraceable(
                "a view that it reads has changed since the program first looked at the frame", position_of(read)
            )

    def _refuse_cached(self, root: Message) -> None:
        """A cached frame has the rows of the moment when it was computed. They are those of a fresh evaluation where
        that is repeatable, since its files have not changed.
        """
        if not self.cached:
            return
        for each in root.walk():
            if each.type != "Relation":
                continue
            found = self.cached.get(shape_of(each))
            if found is None:
                continue
            if not found.is_repeatable:
                raise Untraceable(
                    "the frame was cached, and may have other rows when it is computed again", found.position
                )
            if found.files != frozenset[tuple[str, int, int]]().union(*map(_files_of, self._with_views(each))):
                raise Untraceable("files have changed since a frame that reads them was cached", found.position)

    def _with_views(self, relation: Message) -> Iterator[Message]:
        """A relation, and those that the views in it stand for."""
        waiting, seen = [relation], set[int]()
        while waiting:
            root = waiting.pop()
            yield root
            for each in _reads(root):
                for view in self._views_in(each).values():
                    if view is not None and id(view) not in seen:
                        seen.add(id(view))
                        waiting.append(view.relation)

    def _views_in(self, read: Message) -> dict[str, View | None]:
        found = read_in(read, ())
        names = [name.strip("`").lower() for name in found.tables] if found is not None else []
        return {name: self.views.get(name) for name in names}


def _files_of(root: Message) -> States:
    return states_below(path for each in _reads(root) for path in paths_of(each))


def plan_id(relation: Message) -> int | None:
    common = relation.message("common")
    return common.number("plan_id") if common is not None and "plan_id" in common else None


def paths_of(relation: Message) -> list[str]:
    """The paths of a read of files."""
    read = relation.message("read")
    source = read.message("data_source") if read is not None else None
    return [absolute_place(path) for path in source.texts("paths")] if source is not None else []


def is_repeatable(relation: Message) -> bool:
    """Whether a frame surely has the same rows whenever it is computed over the same files."""
    for each in relation.walk():
        if each.type == "Relation" and kind_of(each)[0] not in _REPEATABLE:
            return False
        if each.type == "Deduplicate" or "expression_string" in each:
            return False
        name = each.text("function_name").lower() if "function_name" in each else None
        if name is not None and each.type == "Expression.UnresolvedFunction" and name in functions.NOT_REPEATABLE:
            return False
        if each.type == "CommonInlineUserDefinedFunction" and not each.flag("deterministic"):
            return False
    return True


def shape_of(relation: Message) -> str:
    """What two frames have in common that are made alike."""
    shapes: dict[int, str] = {}
    for each in reversed(list(relation.walk())):
        if id(each) not in shapes:
            fields = {name: _shape(value, shapes) for name, value in each.fields.items() if name not in _LEFT_OUT}
            shapes[id(each)] = hashlib.sha256(repr((each.type, sorted(fields.items()))).encode()).hexdigest()
    return shapes[id(relation)]


def _shape(value: Any, shapes: Mapping[int, str]) -> Any:
    match value:
        case Message():
            return shapes[id(value)]
        case tuple():
            return tuple(_shape(each, shapes) for each in value)
        case Mapping():
            return sorted((str(key), _shape(each, shapes)) for key, each in value.items())
        case _:
            return repr(value)


def _is_read(relation: Message) -> bool:
    return read_in(relation, ()) is not None


def _reads(root: Message) -> Iterator[Message]:
    return (each for each in root.walk() if each.type == "Relation" and _is_read(each))


def is_writing(text: str) -> bool:
    """Whether a text of SQL writes rows."""
    return _WRITING.match(text) is not None


def sql_text(relation: Message) -> str | None:
    sql = relation.message("sql")
    return sql.text("query") if sql is not None else None
