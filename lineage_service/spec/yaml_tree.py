"""The text of a workflow file to plain Python values, with the position of every key and value.

Reads YAML's *events* and interprets scalars itself (yaml_scalars.py), so that positions are exact, and nothing is built
before depth and size are known to be within limits.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner

from lineage_service.errors import NotFound, Position, Problem, WorkflowError, did_you_mean, join_names
from lineage_service.spec.yaml_scalars import SourceFloat, core_value

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 100_000

Path_ = tuple[str | int, ...]
Place = tuple[int, int]

_CORE = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class YamlPositions:
    """The positions of the keys and values of a file, by their path from the top, e.g. ("steps", 2, "where")."""

    file: str
    values: dict[Path_, Place] = field(default_factory=dict)
    keys: dict[Path_, Place] = field(default_factory=dict)
    styles: dict[Path_, str] = field(default_factory=dict)  # of values that are block scalars or in quotes
    lines: tuple[str, ...] = ()

    def at(self, *path: str | int) -> Position:
        """The position of the value at path, or of its nearest ancestor that is in the file."""
        while path not in self.values and path:
            path = path[:-1]
        line, column = self.values.get(path, (0, 0))
        return Position(self.file, line + 1, column + 1)

    def key(self, *path: str | int) -> Position:
        """The position of the key at path; that of its value if there is no key."""
        if path not in self.keys:
            return self.at(*path)
        line, column = self.keys[path]
        return Position(self.file, line + 1, column + 1)


@dataclass(frozen=True, slots=True)
class Tree:
    """A file as dict, list, str, int, float, bool and None. `problems` are those with which it is still readable."""

    value: dict[str, Any]
    marks: YamlPositions
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Node:
    kind: str  # scalar, list, mapping, alias
    place: Place
    tag: str | None = None
    text: str = ""
    plain: bool = False
    items: list[_Node] = field(default_factory=list)  # a mapping's are key, value, key, value
    target: _Node | None = None
    open: bool = True
    style: str | None = None


class _BoundedScanner(Scanner):
    """Refuses deep nesting while scanning, because ruamel's look-ahead is quadratic in the depth of open brackets."""

    def fetch_flow_collection_start(self, *args: Any, **kwargs: Any) -> None:
        self._check(len(self.flow_context))
        super().fetch_flow_collection_start(*args, **kwargs)

    def add_indent(self, column: int) -> bool:
        self._check(len(self.indents))
        return bool(super().add_indent(column))

    def _check(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise MarkedYAMLError(problem=_TOO_DEEP, problem_mark=self.reader.get_mark())


_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"
_TOO_MANY = f"more than {MAX_NODES:,} values, those of aliases counted each time they are used"


def read_tree(path: Path, shown: str) -> Tree:
    """The tree of the file at path, which problems call `shown`. Raises an error if it cannot be parsed."""
    return parse_tree(read_text(path, shown), shown)


def parse_tree(text: str, shown: str) -> Tree:
    """The tree of a file's text. Raises WorkflowError for a syntax error, or if the top level is no mapping."""
    root = _Composer(text, shown).root()
    if root is None or (root.kind == "scalar" and root.plain and core_value(root.text) is None):
        raise WorkflowError(Problem("the file is empty; a workflow needs a mapping with version, name, sources, "
                                    "steps and outputs", Position(shown, 1, 1)))  # fmt: skip
    builder = _TreeBuilder(YamlPositions(shown, lines=tuple(text.split("\n"))))
    value = builder.build(root, ())
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise WorkflowError(Problem(f"the top level needs a mapping with version, name, sources, steps and outputs, "
                                    f"not {kind}", builder.marks.at()))  # fmt: skip
    return Tree(value, builder.marks, tuple(builder.problems))


def read_text(path: Path, shown: str) -> str:
    """The text of a workflow file. Raises where it cannot be read."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise WorkflowError(f"'{shown}' is a folder; a workflow is a YAML or .sql file")
        # A pipe or a device may never end.
        if not stat.S_ISREG(info.st_mode):
            raise WorkflowError(f"'{shown}' is not a regular file; a workflow is a YAML or .sql file")
        with path.open("rb") as stream:
            # One byte more than allowed, and never more: the file may grow while it is read.
            raw = b"" if info.st_size > MAX_BYTES else stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"workflow file '{shown}' does not exist") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise WorkflowError(f"workflow file '{shown}' cannot be read: {reason}") from None
    size = max(info.st_size, len(raw))
    if size > MAX_BYTES:
        raise WorkflowError(f"workflow file '{shown}' has {size:,} bytes; the limit is {MAX_BYTES:,} (1 MiB)")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        raise WorkflowError(Problem("the file is not UTF-8: it has an invalid byte here",
                                    _position(shown, before, len(before)), "save it as UTF-8")) from None  # fmt: skip


def _position(shown: str, text: str, index: int) -> Position:
    before = text[:index]
    return Position(shown, before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


class _Composer:
    """Events to the nodes of one document, with anchors resolved. Depth and number of nodes are limited."""

    def __init__(self, text: str, shown: str) -> None:
        self.text = text
        self.shown = shown
        self.count = 0
        self.anchors: dict[str, _Node] = {}
        self.yaml = YAML(typ="safe", pure=True)
        self.yaml.Scanner = _BoundedScanner

    def root(self) -> _Node | None:
        documents: list[_Node] = []
        stack: list[_Node] = []
        for event in self._events():
            kind = type(event).__name__
            place = (event.start_mark.line, event.start_mark.column)
            if kind == "DocumentStartEvent" and documents:
                self._stop("several documents in one file; a workflow is one document", place)
            if kind.endswith("EndEvent") and kind not in ("DocumentEndEvent", "StreamEndEvent"):
                stack.pop().open = False
            if kind not in _NODE_EVENTS:
                continue
            node = self._node(_NODE_EVENTS[kind], event, place)
            (stack[-1].items if stack else documents).append(node)
            if kind in ("MappingStartEvent", "SequenceStartEvent"):
                if len(stack) >= MAX_DEPTH:
                    self._stop(_TOO_DEEP, place)
                stack.append(node)
        return documents[0] if documents else None

    def _node(self, kind: str, event: Any, place: Place) -> _Node:
        self.count += 1
        if self.count > MAX_NODES:
            self._stop(_TOO_MANY, place)
        if kind == "alias":
            target = self.anchors.get(event.anchor)
            if target is None:
                hint = did_you_mean(event.anchor, list(self.anchors)[:100]) or _QUOTED.format("*")
                self._stop(
                    f"unknown alias '*{event.anchor}'; anchors before it: {join_names(self.anchors)}", place, hint
                )
            if target.open:
                self._stop(f"alias '*{event.anchor}' stands inside the value it names", place)
            return _Node(kind, place, target=target)
        node = _Node(kind, place, tag=event.tag and str(event.tag), open=kind != "scalar")
        if kind == "scalar":
            node.text, node.style = event.value, event.style
            node.plain = event.tag is None and event.implicit[0]
            if "\0" in node.text or any("\ud800" <= char <= "\udfff" for char in node.text):
                self._stop("text with a character that is none (NUL or half of a surrogate pair)", place)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _events(self) -> Iterator[Any]:
        last: Place = (0, 0)
        try:
            for event in self.yaml.parse(self.text):
                last = (event.end_mark.line, event.end_mark.column)
                yield event
        except WorkflowError:
            raise
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = (mark.line, mark.column) if mark else (0, 0)
            problem = str(error.problem or error.context or "not valid YAML").strip()
            if problem == _TOO_DEEP:
                self._stop(problem, place)
            context = f" ({error.context})" if error.problem and error.context else ""
            self._stop(f"not valid YAML: {problem}{context}", place, _syntax_hint(problem, context))
        except ReaderError as error:
            at = _position(self.shown, self.text, error.position)
            self._stop(f"not valid YAML: character U+{error.character:04X} is not allowed",
                       (at.line - 1, at.column - 1))  # fmt: skip
        except (YAMLError, ValueError, AssertionError, LookupError, AttributeError, TypeError) as error:
            # ruamel lets some mistakes through to Python itself, e.g. "\U00110000" or "%YAML 1.3".
            reason = str(error) if isinstance(error, AssertionError) else "a number or an escape is out of range"
            self._stop(f"not valid YAML: {reason} (after this position)", last)

    def _stop(self, message: str, place: Place, hint: str | None = None) -> NoReturn:
        raise WorkflowError(Problem(message, Position(self.shown, place[0] + 1, place[1] + 1), hint)) from None


_QUOTED = "a value that begins with {} is put in quotes, as a whole"


def _syntax_hint(problem: str, context: str) -> str | None:
    """A hint for common mistakes."""
    if "'\\t'" in problem:
        return "indent and separate with spaces, not tabs"
    if start := re.search(r"found character '(.)' that cannot start any token", problem):
        return _QUOTED.format(start[1])
    if "scanning an alias" in context:
        return _QUOTED.format("*")
    if "double-quoted scalar" in context and "escape" in problem:
        return "between double quotes a \\ begins an escape: use single quotes, or / in paths"
    if "flow mapping" in context and "'{'" in problem:
        return "between { and } a value with ${…} in it is put in quotes"
    if "found '<scalar>'" in problem or "scanning a block scalar" in context:
        return (
            "a value that begins with a quote or a bracket ends with it: put the whole value in quotes, of another kind"
        )
    if "mapping values are not allowed" in problem:
        return "look at the indentation, and for a ':' without a space; a value with ': ' in it is put in quotes"
    if "block collection" in context:
        return "the keys of one entry stand below each other: indent them as far as the first one behind the dash"
    if "quoted scalar" in context and "end of stream" in problem:
        return "a quote is opened above, and never closed"
    return None


_TAGGED: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (SourceFloat, int),
    "bool": (bool,),
    "null": (type(None),),
}
_NODE_EVENTS = {
    "ScalarEvent": "scalar",
    "AliasEvent": "alias",
    "MappingStartEvent": "mapping",
    "SequenceStartEvent": "list",
}


class _TreeBuilder:
    """Nodes to plain Python values and positions. Aliases are copied, so their nodes count towards the same limit."""

    def __init__(self, marks: YamlPositions) -> None:
        self.marks = marks
        self.problems: list[Problem] = []
        self.count = 0

    def build(self, node: _Node, path: Path_, place: Place | None = None) -> Any:
        """The value of a node. The position of an aliased value is that of the alias; positions inside it are those of
        the anchor.
        """
        place = place or node.place
        if node.target is not None:
            return self.build(node.target, path, place)
        self._count(place, len(path))
        self.marks.values[path] = place
        if node.kind == "list":
            self._check_tag(node, "seq", place)
            return [self.build(item, (*path, index)) for index, item in enumerate(node.items)]
        if node.kind == "mapping":
            self._check_tag(node, "map", place)
            return self._mapping(node, path)
        if node.style:
            self.marks.styles[path] = node.style
        return self._scalar(node, place)

    def _mapping(self, node: _Node, path: Path_) -> dict[str, Any]:
        built: dict[str, Any] = {}
        merged: list[_Node] = []
        for key_node, value in zip(node.items[::2], node.items[1::2], strict=True):
            if key_node.kind == "scalar" and key_node.plain and key_node.text == "<<":
                merged.append(value)
                continue
            key = self._key(key_node)
            if key is None:
                continue
            if key in built:
                first = self.marks.key(*path, key).line
                self._problem(f"duplicate key '{key}'; it is already on line {first}", key_node.place)
                continue
            self.marks.keys[(*path, key)] = key_node.place
            # ruamel places an empty value at whatever comes next.
            empty = value.kind == "scalar" and value.plain and not value.text
            built[key] = self.build(value, (*path, key), key_node.place if empty else None)
        for value in merged:
            self._merge(value, path, built, len(path))
        return built

    def _merge(self, value: _Node, path: Path_, built: dict[str, Any], depth: int) -> None:
        """Adds the pairs of a `<<:` value whose keys are not given otherwise."""
        node = value.target or value
        self._count(value.place, depth)
        if node.kind == "list":
            for item in node.items:
                self._merge(item, path, built, depth + 1)
        elif node.kind == "mapping":
            later = []
            for key_node, item in zip(node.items[::2], node.items[1::2], strict=True):
                if key_node.kind == "scalar" and key_node.plain and key_node.text == "<<":
                    later.append(item)
                    continue
                key = self._key(key_node)
                if key is not None and key not in built:
                    self.marks.keys[(*path, key)] = key_node.place
                    built[key] = self.build(item, (*path, key))
            for item in later:
                self._merge(item, path, built, depth + 1)
        else:
            self._problem("'<<' merges a mapping or a list of mappings, nothing else", value.place)

    def _key(self, node: _Node) -> str | None:
        """A key as text. Numbers are kept as written, because a column may be called 2024."""
        target = node.target or node
        if target.kind == "scalar":
            self._count(node.place, 0)
            value = self._scalar(target, node.place)
            if value is not None:
                return target.text
        self._problem("a key needs to be text, not " + ("empty" if target.kind == "scalar" else f"a {target.kind}"),
                      node.place)  # fmt: skip
        return None

    def _scalar(self, node: _Node, place: Place) -> str | int | float | bool | None:
        text = node.text
        if not node.plain and node.tag in (None, "!", f"{_CORE}str"):
            return text
        value = core_value(text)
        if node.tag is None:
            return value
        tag = node.tag.removeprefix(_CORE)
        if tag not in _TAGGED:
            self._check_tag(node, "str", place)
            return text
        if type(value) not in _TAGGED[tag]:
            self._problem(f"'{text[:40]}' is not what its tag '!!{tag}' says", place)
        return value

    def _check_tag(self, node: _Node, core: str, place: Place) -> None:
        if node.tag in (None, "!", f"{_CORE}{core}"):
            return
        shown = str(node.tag)
        shown = f"!!{shown.removeprefix(_CORE)}" if shown.startswith(_CORE) else shown
        self._problem(f"tag '{shown}' is not known here; workflow files need no tags", place)

    def _count(self, place: Place, depth: int) -> None:
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            self._problem(_TOO_MANY if self.count > MAX_NODES else _TOO_DEEP, place)
            raise WorkflowError(self.problems[-1])

    def _problem(self, message: str, place: Place) -> None:
        self.problems.append(Problem(message, Position(self.marks.file, place[0] + 1, place[1] + 1)))
