"""What a program has made of its session so far: views, cached frames, and what it saw when it first looked at a frame.

Spark keeps more than the plans say. A frame that was analysed keeps its list of files and the views of that moment, a
view keeps the plan that it was made of, and a cached frame keeps its rows. A fresh evaluation of a frame is what the
program will see only where none of that differs from now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lineage_service.errors import Position
from lineage_service.plan import functions
from lineage_service.plan.from_connect.messages import Message, to_json
from lineage_service.plan.from_connect.program_reads import read_in
from lineage_service.plan.from_connect.refusals import Untraceable
from lineage_service.programs.dataset_places import absolute_place
from lineage_service.programs.file_states import States, states_below


@dataclass(frozen=True, eq=False)
class View:
    """A temporary view. `made_of`: the views that its plan had found when it was made; empty for a view made by SQL,
    whose text is read again each time.
    """

    relation: Message
    made_of: Mapping[str, View | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a read meant when the program first looked at a frame with it."""

    files: States
    views: Mapping[str, View | None]


@dataclass
class SessionState:
    """The state of one session of a program. `cached`: frames that it has cached, by their shape, with the line."""

    views: dict[str, View] = field(default_factory=dict)
    looks: dict[int, FirstLook] = field(default_factory=dict)
    cached: dict[str, tuple[Message, Position]] = field(default_factory=dict)

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
        made_of = {} if is_text else {key: view for each in _reads(relation) for key, view in self._views_in(each).items()}
        self.views[name.lower()] = View(relation, made_of)

    def cache(self, relation: Message, position: Position) -> None:
        self.look(relation)
        self.cached[shape_of(relation)] = relation, position

    def refuse_unknown(self, relation: Message, position_of: PositionOf) -> None:
        """Raises Untraceable where a frame may see other rows than a fresh evaluation gives."""
        waiting, seen = [relation], set[int]()
        while waiting:
            root = waiting.pop()
            self._refuse_cached(root)
            for each in _reads(root):
                self._refuse_changed(each, position_of)
                for name, view in self._views_in(each).items():
                    if view is None or id(view) in seen:
                        continue
                    seen.add(id(view))
                    if any(self.views.get(key) is not before for key, before in view.made_of.items()):
                        raise Untraceable(f"a view has changed since view '{name}' was made of it", position_of(each))
                    waiting.append(view.relation)

    def _refuse_changed(self, read: Message, position_of: PositionOf) -> None:
        look = self.looks.get(plan_id(read) or -1) if plan_id(read) != 0 else self.looks.get(0)
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
            if found is not None and not is_repeatable(each):
                raise Untraceable("the frame was cached, and may have other rows when it is computed again", found[1])

    def _views_in(self, read: Message) -> dict[str, View | None]:
        found = read_in(read, ())
        names = [name.strip("`").lower() for name in found.tables] if found is not None else []
        return {name: self.views.get(name) for name in names}


class PositionOf:
    """Returns the line of the program that made a relation."""

    def __call__(self, relation: Message) -> Position:
        raise NotImplementedError


def plan_id(relation: Message) -> int | None:
    common = relation.message("common")
    return common.number("plan_id") if common is not None and "plan_id" in common else None


def paths_of(relation: Message) -> list[str]:
    """The paths of a read of files."""
    read = relation.message("read")
    source = read.message("data_source") if read is not None else None
    return [absolute_place(path) for path in source.texts("paths")] if source is not None else []


def shape_of(relation: Message) -> str:
    """The relation without the ids and lines by which two frames differ that are made alike."""
    return re.sub(r'"(plan_id|call_site|fragment)"', "", to_json(_without_common(relation)))


def _without_common(message: Message) -> Message:
    from lineage_service.programs.frame_sources import replace_relations

    def bare(each: Message) -> Message | None:
        _ = each

    return replace_relations(message, bare)
