"""What `explain` says, for people: the plan as a tree, then tables of what the tree has no room for."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lineage_cli.messages import visible
from lineage_cli.tables import GAP, Column, safe, write_table
from lineage_cli.trees import Tree, draw_tree, truncate, width_of

if TYPE_CHECKING:
    from lineage_cli.sink import Sink

Facts = Mapping[str, Any]

ABOVE = "(see above)"
NOTHING = "-"
NO_COLUMN = "no column"  # such as count(*), or a constant
ROOMY = 30  # cells that the text of the deepest line needs; with less, chains of steps are not indented


def write_explanation(facts: Facts, sink: Sink, *, width: int | None, ascii: bool = False) -> None:
    """Writes the explanation (its JSON form); `width` is the terminal's, None where lines stay whole."""
    terminal = width is not None

    def say(line: str) -> None:
        encoding = (sys.stdout.encoding or "utf-8") if terminal else "utf-8"
        sink.write(f"{visible(line)}\n".encode(encoding, errors="replace"))

    plan = _Plan(facts)
    what = "as it was run" if facts["as_run"] else f"capture {facts['capture']}"
    for line in (f"workflow {facts['workflow']}, {what}", *_about_rows(facts, plan)):
        say(line if width is None else truncate(_ascii_text(line, ascii), width))
    for line in _tree_lines(plan, width, ascii):
        say(line)
    for title, columns, rows in _tables(facts, plan):
        if rows:
            say(f"\n{title}\n")
            # A column that says nothing of any row only takes the others' room.
            told = [place for place in range(len(columns)) if any(row[place] != NOTHING for row in rows)]
            write_table(
                [columns[place] for place in told], [[row[place] for place in told] for row in rows], sink,
                terminal=terminal,
            )  # fmt: skip


class _Plan:
    """The steps of an explanation, each with all nodes it is built from: `having` is a filter over an aggregate."""

    def __init__(self, facts: Facts) -> None:
        self.sources: Mapping[str, Facts] = facts["sources"]
        self.nodes: dict[str, list[Facts]] = {}
        for node in facts["steps"]:
            self.nodes.setdefault(node["step"], []).append(node)
        self.outputs: dict[str, list[str]] = {}
        for name, output in facts["outputs"].items():
            self.outputs.setdefault(output["step"], []).append(name)

    def roots(self) -> list[str]:
        """Steps that nobody reads: outputs, and steps that are only kept."""
        read = {name for step in self.nodes for name, _ in self.inputs(step)}
        steps = dict.fromkeys((*self.outputs, *self.nodes))
        return [step for step in steps if step not in read]

    def inputs(self, name: str) -> list[tuple[str, bool]]:
        """What a step reads, and whether that influences by absence only."""
        own = {node["name"] for node in self.nodes.get(name, ())}
        return [
            (below, place == 1 and node["operator"] in ("anti join", "difference"))
            for node in self.nodes.get(name, ())
            for place, below in enumerate(node["reads"])
            if below not in own
        ]

    def does(self, name: str) -> str:
        """A step or source in a line, less its name."""
        if name in self.sources:
            return safe(f"source {self.sources[name]['from'] or ''}".rstrip())
        last = self.nodes[name][-1]
        shown = [each for each in self.outputs.get(name, ()) if each != name]
        roles = []
        if name in self.outputs.get(name, ()):
            roles.append("output")
        elif not shown and last["written_once"] == "an output, or kept":
            roles.append("kept")
        roles += [f"output {each}" for each in shown]
        return safe(f"[{', '.join(roles)}] {last['does']}" if roles else last["does"])

    def rows(self, name: str) -> str:
        """Rows of the last run; else at most so many; else nothing."""
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
        yield "rows: ≤ is the most there can be, by the sources' files"


def _tree_lines(plan: _Plan, width: int | None, ascii: bool) -> Iterator[str]:
    """The trees of all outputs, and before each line its rows and its capture strategy."""
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
    """A step and what it reads. `names` gets the step of each line; None where it only refers to one above."""
    name = root
    shown.add(name)
    names.append(name)
    children = []
    for below, absent in plan.inputs(name):
        said = "influences by absence only" if absent else ""
        if below in shown and plan.inputs(below):
            names.append(None)
            children.append(Tree((f"{below}  {said or ABOVE}",), dashed=absent))
            continue
        child = _tree(plan, below, shown, names)
        line = f"{below}  {said}: {plan.does(below)}" if said else child.lines[0]
        children.append(Tree((line,), child.children, dashed=absent))
    return Tree((f"{name}  {plan.does(name)}",), tuple(children))


def _fold_chains(tree: Tree) -> Tree:
    """The same lines, but steps that read only the next one stand below each other, under the first of them."""
    lines, dashed = tree.lines, tree.dashed
    while len(tree.children) == 1 and not tree.children[0].dashed:
        tree = tree.children[0]
        lines += tree.lines
    return Tree(lines, tuple(_fold_chains(child) for child in tree.children), dashed)


def _depth(tree: Tree) -> int:
    """How many levels hang below the label; a loop, for chains of steps may be long."""
    depth, level = -1, [tree]
    while level:
        depth, level = depth + 1, [child for each in level for child in each.children]
    return depth


def _column_width(title: str, cells: Sequence[str]) -> int:
    """The width of a column before the tree; none where it would be empty."""
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
