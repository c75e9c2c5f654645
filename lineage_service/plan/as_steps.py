"""A compiled query as steps of a workflow file: one step per node, in the order in which they can be read.

A node that no operator says stays an sql step of one construct. `assert_never` names this place where a node is added.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from lineage_service.plan.expressions import BARE_FUNCTIONS, SortKey, quote_identifier, tokens_of
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    GroupLimit,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.window_calls import window_calls
from lineage_service.spec.legal_names import unused_name
from lineage_service.spec.sql_parsing import words_of_sql

StepJson = dict[str, Any]


def steps_of_query(last: Node, taken: Iterable[str]) -> list[StepJson]:
    """The steps that do what an sql step does; the last one has its name. `taken` are names that others have."""
    nodes = list(_own_nodes(last))
    columns = readable_columns(nodes, last)
    beside = {below for node in nodes if isinstance(node, Window) for below in node.beside}
    names: dict[str, str] = {last.id: last.step}
    for node in nodes:
        if node is not last:
            wanted = re.sub(r"[^a-z0-9_]", "_", f"{last.step}_{node.id.rpartition(':')[2].partition('_')[2]}")
            names[node.id] = unused_name(wanted, {*names.values(), *taken})
    writer = _StepWriter(last.step, names, columns, {node.id: node for node in nodes})
    return [writer.step(node) for node in nodes if node.id not in beside]


def has_steps(last: Node) -> bool:
    """Whether operators can say what a query does. A correlated subquery, and one whose matches are marks, are
    compiled to nodes whose rows have less lineage than the rows of any operator: such a query stays whole.
    """
    return not any(
        isinstance(each, OuterValues | GroupLimit) or (isinstance(each, Join) and each.absence)
        for each in _own_nodes(last)
    )


def _reads_own(node: Node) -> bool:
    """Whether the columns that a node reads have names of the compiler's. Those of tables are the user's, and may be
    like ours.
    """
    return all(below.step == node.step for below in node.inputs)


def _own_nodes(last: Node) -> Iterator[Node]:
    """The nodes of the step, inputs before those that read them."""
    seen: set[str] = set()

    def walk(node: Node) -> Iterator[Node]:
        if node.step == last.step and node.id not in seen and not isinstance(node, Source):
            seen.add(node.id)
            for below in node.inputs:
                yield from walk(below)
            yield node

    return walk(last)


@dataclass(frozen=True)
class _StepWriter:
    """Writes nodes of one sql step; `names` are the steps that they become, `columns` their columns' new names."""

    query: str
    names: Mapping[str, str]
    columns: Mapping[str, str]
    nodes: Mapping[str, Node]

    def step(self, node: Node) -> StepJson:
        name = {"name": self.names[node.id]}
        match node:
            case Filter():
                return {
                    **name,
                    "op": "filter",
                    "input": self._of(node.input),
                    "where": self._text(node.where.text, node),
                }
            case Project():
                return {**name, "op": "project", "input": self._of(node.input), "columns": self._columns(node)}
            case WithColumns():
                columns = self._named(node.columns, node)
                return {**name, "op": "with_columns", "input": self._of(node.input), "columns": columns}
            case Aggregate():
                by = {"by": _short(self._named(node.keys, node))} if node.keys else {}
                measures = {"measures": self._named(node.measures, node)} if node.measures else {}
                return {**name, "op": "aggregate", "input": self._of(node.input), **by, **measures}
            case Distinct():
                return {**name, "op": "distinct", "input": self._of(node.input)}
            case Join():
                how = {} if node.how == "inner" else {"how": node.how}
                on = {} if node.on is None else {"on": self._text(node.on.text, node)}
                using = {"using": [self._column(each) for each in node.using]} if node.using else {}
                return {**name, "op": "join", **self._sides(node), **how, **on, **using}
            case Union():
                return {**name, "op": "union", "inputs": [self._of(each) for each in node.branches]}
            case Intersect() | Difference():
                op = "intersect" if isinstance(node, Intersect) else "difference"
                return {**name, "op": op, **self._sides(node), **({"distinct": False} if node.all else {})}
            case Window():
                return {**name, **(self._windows_in_sql(node) if node.beside else self._window(node))}
            case Sort():
                return {**name, "op": "sort", "input": self._of(node.input), "by": self._order(node.by, node)}
            case Limit():
                return {**name, **self._limit(node)}
            case Explode():
                outer = {"outer": True} if node.outer else {}
                column, alias = self._column(node.column), self._column(node.alias)
                return {**name, "op": "explode", "input": self._of(node.input), "column": column, "as": alias, **outer}
            case Source():
                raise AssertionError("a source is no step")
            case _:
                assert_never(node)

    def _of(self, node: Node) -> str:
        return self.names.get(node.id, node.step)

    def _sides(self, node: Join | Intersect | Difference) -> StepJson:
        return {"left": self._of(node.left), "right": self._of(node.right)}

    def _text(self, text: str, node: Node) -> str:
        return renamed(text, self.columns) if _reads_own(node) else text

    def _column(self, name: str) -> str:
        return self.columns.get(name, name)

    def _named(self, columns: Iterable[NamedExpression], node: Node) -> dict[str, str]:
        return {self._column(each.name): _bare(self._text(each.expression.text, node)) for each in columns}

    def _columns(self, node: Project) -> dict[str, str] | list[str]:
        if node.id == self.query:  # names of the user, which may be like ours
            return _short({each.name: _bare(self._text(each.expression.text, node)) for each in node.columns})
        return _short(self._named(node.columns, node))

    def _order(self, keys: Iterable[SortKey], node: Node) -> list[str]:
        return [_sort_text(self._text(key.expression.text, node), key) for key in keys]

    def _window(self, node: Window) -> StepJson:
        partition = {"partition_by": [self._column(each) for each in node.partition_by]} if node.partition_by else {}
        order = {"order_by": self._order(node.order_by, node)} if node.order_by else {}
        frame = {"frame": node.frame.text} if node.frame is not None else {}
        measures = {"measures": self._named(node.measures, node)}
        return {"op": "window", "input": self._of(node.input), **partition, **order, **measures, **frame}

    def _limit(self, node: Limit) -> StepJson:
        below, order = self._of(node.input), self._order(node.by, node)
        if not node.offset:
            return {"op": "limit", "input": below, "n": node.n, **({"by": order} if order else {})}
        by = f" ORDER BY {', '.join(order)}" if order else ""
        most = "" if node.n is None else f" LIMIT {node.n}"
        return {"op": "sql", "query": f"SELECT * FROM {below}{by}{most} OFFSET {node.offset}"}

    def _windows_in_sql(self, top: Window) -> StepJson:
        """Windows over the same rows: steps with `op: window` on top of each other would read what others have read."""
        windows = [self.nodes[each] for each in top.beside] + [top]
        lowest = windows[0]
        assert isinstance(lowest, Window)
        calls = [call for window in windows if isinstance(window, Window) for call in self._calls(window)]
        return {"op": "sql", "query": f"SELECT *, {', '.join(calls)} FROM {self._of(lowest.input)}"}

    def _calls(self, window: Window) -> Iterator[str]:
        partition = ", ".join(_bare(quote_identifier(self._column(each))) for each in window.partition_by)
        order = ", ".join(self._order(window.order_by, window))
        parts = [f"PARTITION BY {partition}"] if partition else []
        parts += [f"ORDER BY {order}"] if order else []
        for measure in window.measures:
            framed = window.frame is not None and any(each.takes_a_frame for each in window_calls(measure.expression))
            frame = [window.frame.text] if framed and window.frame is not None else []
            over = " ".join([*parts, *frame])
            yield f"{self._text(measure.expression.text, window)} OVER ({over}) AS {self._column(measure.name)}"


def _bare(text: str) -> str:
    """A column in quotes that needs none, without them."""
    name = text[1:-1]
    is_quoted = text[:1] == text[-1:] == "`" and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)
    return name if is_quoted and name.lower() not in _words() else text


def _words() -> frozenset[str]:
    """Words that may mean something else than a column."""
    return frozenset({word.lower() for word in words_of_sql()} | set(BARE_FUNCTIONS) | {"left", "right"})


def _sort_text(text: str, key: SortKey) -> str:
    nulls = "" if key.nulls_first != key.descending else f" nulls {'first' if key.nulls_first else 'last'}"
    return f"{text}{' desc' if key.descending else ''}{nulls}"


def _short(columns: dict[str, str]) -> dict[str, str] | list[str]:
    """A list of names where each column keeps its name."""
    plain = all(text in (name, quote_identifier(name)) for name, text in columns.items())
    return list(columns) if plain else columns


def renamed(text: str, names: Mapping[str, str]) -> str:
    """An expression with columns renamed, in quotes or not; fields of structs keep their names."""
    pieces, behind, before = [], 0, ""
    for token in tokens_of(text):
        is_name = token.token_type.name in ("VAR", "IDENTIFIER") and before != "DOT"
        new = names.get(token.text) if is_name else None
        before = token.token_type.name
        if new is not None:
            pieces += [text[behind : token.start], new]
            behind = token.end + 1
    return "".join([*pieces, text[behind:]])


def readable_columns(nodes: list[Node], last: Node) -> dict[str, str]:
    """New names for the columns that the compiler named. No two columns that meet in a node get the same name."""
    meeting: dict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if node is not last:
            together = dict.fromkeys(node.schema.names)  # in order, so that names do not depend on hashes
            if isinstance(node, Join | Aggregate):
                together |= dict.fromkeys(name for below in node.inputs for name in below.schema.names)
            for name in together:
                meeting[name] |= together.keys()
    made = sorted(filter(_is_made, meeting), key=lambda name: re.search(r"_\d+$", name) is not None)
    avoided = set(_words())
    for node in nodes:
        for expression, _ in node.expressions_with_schemas():
            avoided |= {token.text.lower() for token in expression.tokens if token.token_type.name == "VAR"} - set(made)
    becoming = _plain_renames(nodes)
    found: dict[str, str] = {}
    for name in made:
        used = {found.get(other, other).lower() for other in meeting[name] if other != name}
        choices = [each for each in _choices(name, becoming.get(name)) if each not in avoided and each not in used]
        found[name] = choices[0] if choices else unused_name(name.replace("__", "_"), used | avoided)
    return found


def _is_made(name: str) -> bool:
    return re.fullmatch(r"[a-z]\w*?__\w+", name) is not None


def _plain_renames(nodes: Iterable[Node]) -> dict[str, str]:
    """What columns are called in the end, where they are only renamed: sum(x) AS total."""
    found: dict[str, str] = {}
    for node in nodes:
        for column in node.columns if isinstance(node, Project) else ():
            found.setdefault(column.expression.text, column.name)
    return found


def _choices(name: str, becoming: str | None) -> Iterator[str]:
    """Names to choose from, shorter ones first: `o__id_2` can be id or o_id."""
    first, *_ = name.partition("__")
    if becoming is not None and first in ("agg", "window", "scalar", "c", "key", "out", "set"):
        yield from [becoming] if _is_plain(becoming) else _choices(becoming, None)
    parts = re.sub(r"_\d+$", "", name).split("__")
    yield from filter(_is_plain, ("_".join(parts[begin:]) for begin in reversed(range(len(parts)))))


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and not _is_made(name)


def compiled_steps(
    steps: Iterable[StepJson], nodes: Mapping[str, Node], written: Callable[[str], str]
) -> list[StepJson]:
    """The steps of a workflow with those in the place of sql steps that they are compiled to; `written` makes a text
    of a plan one of a file.
    """
    steps = list(steps)
    taken = {step["name"] for step in steps} | {name for name, node in nodes.items() if isinstance(node, Source)}
    found: list[StepJson] = []
    for step in steps:
        if step["op"] != "sql" or not has_steps(nodes[step["name"]]):
            found.append(
                {key: value for key, value in step.items() if key != "inputs"} if step["op"] == "sql" else step
            )
            continue
        new = [_mapped(each, written) for each in steps_of_query(nodes[step["name"]], taken)]
        if "checks" in step:
            new[-1]["checks"] = step["checks"]
        taken |= {each["name"] for each in new}
        found += new
    return found


def _mapped(value: Any, written: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(each, written) for key, each in value.items()}
    if isinstance(value, list):
        return [_mapped(each, written) for each in value]
    return written(value) if isinstance(value, str) else value
