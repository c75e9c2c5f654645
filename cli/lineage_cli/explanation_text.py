"""The answer of `explain` as text: the plan as a tree, then tables with details."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_cli.tables import GAP, Column, write_table
from lineage_cli.tree_drawing import Tree, draw_tree, truncate, width_of
from lineage_service.render.safe_text import escape_line, escape_text

if TYPE_CHECKING:
    from lineage_cli.output_stream import OutputStream

Facts = Mapping[str, Any]

ABOVE = "(see above)"
NOTHING = "-"
NO_COLUMN = "no column"  # for example count(*) or a constant
ROOMY = 30  # minimal width of the deepest line; with less, chains of steps are not indented


def write_explanation(facts: Facts, stream: OutputStream, *, width: int | None, ascii: bool = False) -> None:
    """Writes the explanation, given in its JSON form; `width` is the terminal's, or None if lines are not cut."""
    terminal = width is not None

    def say(line: str) -> None:
        encoding = (sys.stdout.encoding or "utf-8") if terminal else "utf-8"
        stream.write(f"{escape_text(line)}\n".encode(encoding, errors="replace"))

    plan = _Plan(facts)
    what = "as it was run" if facts["as_run"] else f"capture {facts['capture']}"
    for line in (f"workflow {facts['workflow']}, {what}", *_about_rows(facts, plan)):
        say(line if width is None else truncate(_ascii_text(line, ascii), width))
    for line in _tree_lines(plan, width, ascii):
        say(line)
    for title, columns, rows in _tables(facts, plan):
        if rows:
            say(f"\n{title}\n")
            # A column without any value would only take room.
            used = [place for place in range(len(columns)) if any(row[place] != NOTHING for row in rows)]
            write_table(
                [columns[place] for place in used], [[row[place] for place in used] for row in rows], stream,
                terminal=terminal,
            )  # fmt: skip


class _Plan:
    """The steps of an explanation, each with all its nodes: `having`, for example, is a filter over an aggregate.

    Of an sql step, each node that the query became stands for itself.
    """

    def __init__(self, facts: Facts) -> None:
        self.sources: Mapping[str, Facts] = facts["sources"]
        self.nodes: dict[str, list[Facts]] = {}
        for node in facts["steps"]:
            self.nodes.setdefault(node["name"] if node["compiled"] else node["step"], []).append(node)
        self.outputs: dict[str, list[str]] = {}
        for name, output in facts["outputs"].items():
            self.outputs.setdefault(output["step"], []).append(name)

    def roots(self) -> list[str]:
        """Returns the steps that no other step reads: outputs, and steps that are only kept."""
        read = {name for step in self.nodes for name, _ in self.inputs(step)}
        steps = dict.fromkeys((*self.outputs, *self.nodes))
        return [step for step in steps if step not in read]

    def inputs(self, name: str) -> list[tuple[str, bool]]:
        """Returns the inputs of a step, and whether each influences by absence only."""
        own = {node["name"] for node in self.nodes.get(name, ())}
        return [
            (below, place == 1 and node["operator"] in ("anti join", "difference"))
            for node in self.nodes.get(name, ())
            for place, below in enumerate(node["reads"])
            if below not in own
        ]

    def does(self, name: str) -> str:
        """Describes a step or source in one line, without its name."""
        if name in self.sources:
            return escape_line(f"source {self.sources[name]['from'] or ''}".rstrip())
        last = self.nodes[name][-1]
        shown = [each for each in self.outputs.get(name, ()) if each != name]
        roles = []
        if name in self.outputs.get(name, ()):
            roles.append("output")
        elif not shown and last["written_once"] == "an output, or kept":
            roles.append("kept")
        roles += [f"output {each}" for each in shown]
        does = f"[{', '.join(roles)}] {last['does']}" if roles else last["does"]
        return escape_line(f"{does}  -- {last['construct']}" if last.get("construct") else does)

    def rows(self, name: str) -> str:
        """Returns the rows of the last run, else an upper bound, else nothing."""
        facts = self.sources[name] if name in self.sources else self.nodes[name][-1]
        if facts["rows_last_run"] is not None:
            return f"{facts['rows_last_run']:,}"
        most = facts["rows" if name in self.sources else "rows_at_most"]
        exact = name in self.sources
        return "" if most is None else f"{most:,}" if exact else f"≤ {most:,}"

    def strategy(self, name: str) -> str:
        chosen = [node["capture"]["strategy"] for node in self.nodes.get(name, ()) if node["capture"]]
        return ", ".join(dict.fromkeys(chosen))


def _about_rows(facts: Facts, plan: _Plan) -> Iterator[str]:
    run = facts["last_run"]
    if run:
        yield f"rows: of run {run['run_id']}, {run['committed_at'][:16].replace('T', ' ')} UTC"
    if any(plan.rows(name).startswith("≤") for name in (*plan.sources, *plan.nodes)):
        yield "rows: ≤ is an upper bound, from the source files"


def _tree_lines(plan: _Plan, width: int | None, ascii: bool) -> Iterator[str]:
    """Yields the trees of all outputs, with rows and capture strategy before each line."""
    trees: list[tuple[Tree, list[str | None]]] = []
    shown: set[str] = set()
    for root in plan.roots():
        names: list[str | None] = []
        trees.append((_tree(plan, root, shown, names), names))
    every = [name for _, names in trees for name in names if name]
    rows = _column_width("rows", [_ascii_text(plan.rows(name), ascii) for name in every])
    strategies = _column_width("capture", [plan.strategy(name) for name in every])
    titles = (["rows".rjust(rows)] if rows else []) + (["capture".ljust(strategies)] if strategies else [])
    before = (rows + len(GAP) if rows else 0) + (strategies + len(GAP) if strategies else 0)
    room = None if width is None else max(width - before, 10)
    narrow = room is not None and room - 3 * max(_depth(tree) for tree, _ in trees) < ROOMY
    yield ""
    yield GAP.join([*titles, "step"])
    for number, (tree, names) in enumerate(trees):
        if number:
            yield ""
        for line, name in zip(draw_tree(_fold_chains(tree) if narrow else tree, room, ascii=ascii), names, strict=True):
            cells = []
            if rows:
                cells.append((_ascii_text(plan.rows(name), ascii) if name else "").rjust(rows))
            if strategies:
                cells.append((plan.strategy(name) if name else "").ljust(strategies))
            yield GAP.join([*cells, line]).rstrip()


def _tree(plan: _Plan, root: str, shown: set[str], names: list[str | None]) -> Tree:
    """Returns a step with its inputs. Appends the step of each line to `names`; None for a reference."""
    name = root
    shown.add(name)
    names.append(name)
    children = []
    for below, absent in plan.inputs(name):
        influence = "influences by absence only" if absent else ""
        if below in shown and plan.inputs(below):
            names.append(None)
            children.append(Tree((f"{below}  {influence or ABOVE}",), dashed=absent))
            continue
        child = _tree(plan, below, shown, names)
        line = f"{below}  {influence}: {plan.does(below)}" if influence else child.lines[0]
        children.append(Tree((line,), child.children, dashed=absent))
    return Tree((f"{name}  {plan.does(name)}",), tuple(children))


def _fold_chains(tree: Tree) -> Tree:
    """Returns the same lines, but chains of steps with one input each are not indented."""
    lines, dashed = tree.lines, tree.dashed
    while len(tree.children) == 1 and not tree.children[0].dashed:
        tree = tree.children[0]
        lines += tree.lines
    return Tree(lines, tuple(_fold_chains(child) for child in tree.children), dashed)


def _depth(tree: Tree) -> int:
    """Returns the number of levels below the label. A loop, because chains of steps may be long."""
    depth, level = -1, [tree]
    while level:
        depth, level = depth + 1, [child for each in level for child in each.children]
    return depth


def _column_width(title: str, cells: Sequence[str]) -> int:
    """Returns the width of a column before the tree; 0 if it is empty."""
    return max(len(title), *(width_of(cell) for cell in cells)) if any(cells) else 0


def _ascii_text(text: str, ascii: bool) -> str:
    return text.replace("≤", "<=") if ascii else text


Section = tuple[str, Sequence[Column], list[Sequence[str | None]]]


def _tables(facts: Facts, plan: _Plan) -> Iterator[Section]:
    yield (
        "Pipeline breakers, and how their lineage is captured",
        [
            Column("step"),
            Column("capture"),
            Column("rows expected", right=True),
            Column("read", right=True),
            Column("reason"),
        ],
        [
            [
                step,
                node["capture"]["strategy"],
                _number_or_dash(node["capture"]["rows_expected"]),
                _number_or_dash(node["capture"]["rows_read"]),
                node["capture"]["reason"],
            ]
            for step, nodes in plan.nodes.items()
            for node in nodes
            if node["capture"]
        ],
    )
    workload = facts["workload"] or {"questions": (), "pruned": ()}
    yield (
        "Declared questions, and what is kept for them",
        [
            Column("question"),
            Column("asks"),
            Column("kept"),
            Column("by"),
            Column("saves"),
            Column("bytes expected", right=True),
            Column("seconds", right=True),
            Column("bytes last run", right=True),
        ],
        [
            [
                each["name"],
                f"{each['direction']} {each['from']} to {', '.join(each['to'])}",
                each["kept"],
                each["evaluated_by"],
                each["saves"],
                _number_or_dash(each["bytes_expected"]),
                NOTHING if each["seconds_expected"] is None else f"{each['seconds_expected']:g}",
                _number_or_dash(each["bytes_last_run"]),
            ]
            for each in workload["questions"]
        ],
    )
    yield (
        "Pruned: pairs that no declared question needs",
        [Column("asks"), Column("bytes saved", right=True), Column("seconds saved", right=True)],
        [
            [
                f"{each['direction']} {each['from']} to {each['to']}",
                _number_or_dash(each["bytes_saved_expected"]),
                NOTHING if each["seconds_saved_expected"] is None else f"{each['seconds_saved_expected']:g}",
            ]
            for each in workload["pruned"]
        ],
    )
    yield (
        "Steps whose rows are written once and read from there",
        [Column("step"), Column("reason")],
        [
            [step, node["written_once"]]
            for step, nodes in plan.nodes.items()
            for node in nodes
            if node["written_once"] and node["written_once"] != "an output, or kept"
        ],
    )
    yield (
        "Sources: what is read of them, and what is left out",
        [Column("source"), Column("columns read"), Column("not read"), Column("filtered while reading")],
        [
            [
                name,
                _names_or_dash(source["columns_read"]) if source["columns_known"] else "unknown",
                _names_or_dash(source["columns_pruned"]) if source["columns_known"] else "unknown",
                _names_or_dash(source["filters_pushed_down"], "; "),
            ]
            for name, source in plan.sources.items()
        ],
    )
    yield (
        "Columns of sources that are other workflows' outputs",
        [Column("source"), Column("column"), Column("is"), Column("marks")],
        [
            [name, column, behind, "pii" if column in source["pii"] else NOTHING]
            for name, source in plan.sources.items()
            for column, behind in (source["output_columns"] or {}).items()
        ],
    )
    nothing = NO_COLUMN if all(source["columns_known"] for source in plan.sources.values()) else "unknown"
    for title, first, what in (("outputs", "output", "outputs"), ("kept steps", "step", "kept")):
        yield (
            f"Columns of the {title}, and what they are computed from",
            [Column(first), Column("column"), Column("computed from"), Column("marks")],
            [
                [
                    name,
                    column,
                    ", ".join(found) or nothing,
                    "pii" if column in dataset["pii"] else NOTHING,
                ]
                for name, dataset in facts[what].items()
                for column, found in dataset["columns"].items()
            ],
        )
    yield (
        "What else influences the columns: predicates, keys, orders",
        [Column("dataset"), Column("column"), Column("influenced by")],
        [
            [name, column, ", ".join(found)]
            for name, dataset in (*facts["outputs"].items(), *facts["kept"].items())
            for column, found in dataset["influenced_by"].items()
            if found
        ],
    )


def _number_or_dash(rows: int | None) -> str:
    return NOTHING if rows is None else f"{rows:,}"


def _names_or_dash(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names) or NOTHING
