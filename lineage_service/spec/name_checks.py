"""Checks of names across a workflow file: unique, known, without cycles, and used.

Works on the raw tree, so that a part with other problems still defines and uses names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lineage_service.errors import join_names
from lineage_service.spec.problems import Collector
from lineage_service.spec.step_description import INPUT_KEYS
from lineage_service.spec.step_models import STEP_TYPES
from lineage_service.spec.yaml_tree import YamlPositions

MOST_DEPTH = 250  # steps that follow each other
TOO_DEEP = f"is behind more than {MOST_DEPTH} steps that follow each other"
# A file that is one tangle has more cycles than anybody wants to read.
_MOST_CYCLES = 20

RESERVED = ("all",)  # names that datasets cannot have

Reference = tuple[str, tuple[str | int, ...]]  # a name, and the path of the place that mentions it


def check_names(tree: Mapping[str, Any], marks: YamlPositions, collector: Collector) -> None:
    """Adds every problem of names that is found without a schema."""
    NameChecker(tree, marks, collector).check()


def step_inputs(step: Any, path: tuple[str | int, ...] = ()) -> Iterator[Reference]:
    """The references of a raw step, by the input keys of its op; all input keys for an unknown op."""
    if not isinstance(step, dict):
        return
    op = step.get("op")
    model = STEP_TYPES.get(op) if isinstance(op, str) else None
    for key in INPUT_KEYS:
        if model is None or key in model.model_fields:
            yield from _references(step.get(key), (*path, key))


def _references(value: Any, path: tuple[str | int, ...]) -> Iterator[Reference]:
    """One name or a list of names. Anything else is left to the models to refuse."""
    if isinstance(value, str):
        yield value, path
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if isinstance(entry, str):
                yield entry, (*path, index)


class NameChecker:
    """The names of one file, and the checks on them."""

    def __init__(self, tree: Mapping[str, Any], marks: YamlPositions, collector: Collector) -> None:
        self.marks = marks
        self.found = collector
        self.sources: dict[str, Any] = _mapping(tree.get("sources"))
        self.outputs: dict[str, Any] = _mapping(tree.get("outputs"))
        lineage = _mapping(tree.get("lineage"))
        self.keep = list(_references(lineage.get("keep"), ("lineage", "keep")))
        self.workload: list[Any] = lineage["workload"] if isinstance(lineage.get("workload"), list) else []
        # Where the list of names is itself wrong, no name can be called unknown.
        self.knows_sources = isinstance(tree.get("sources"), dict)
        self.knows_outputs = isinstance(tree.get("outputs"), dict)
        self.knows_steps = isinstance(tree.get("steps"), list) and all(
            isinstance(step, dict) and isinstance(step.get("name"), str) for step in tree["steps"]
        )
        self.raw_steps: list[Any] = tree["steps"] if isinstance(tree.get("steps"), list) else []
        self.steps: dict[str, tuple[str | int, ...]] = {}  # name -> path of the step
        self.reads: dict[str, list[Reference]] = {}

    def check(self) -> None:
        self._check_reserved()
        self._declare_steps()
        self._check_inputs()
        read = {name for references in self.reads.values() for name, _ in references}
        read |= self._check_outputs()
        read |= self._check_keep()
        self._check_workload()
        self._check_cycles()
        # What is wrong elsewhere may be what reads it.
        for name in self.sources if not self.found.has_errors else ():
            if name not in read:
                self.found.add(
                    f"no step reads source '{name}'", self.marks.key("sources", name),
                    "use it in a step, or remove it: a run opens it anyway", "warning",
                )  # fmt: skip
        for name, path in self.steps.items() if self.knows_outputs else ():
            if name not in read and name not in self.sources:
                self.found.add(
                    f"no step or output reads step '{name}'", self.marks.at(*path, "name"),
                    "add it to outputs, or remove it", "warning",
                )  # fmt: skip

    def _check_reserved(self) -> None:
        """Refuses dataset names that have another meaning where datasets are named."""
        places = [(name, self.marks.key("sources", name), "source") for name in self.sources]
        places += [(name, self.marks.key("outputs", name), "output") for name in self.outputs]
        places += [(name, self.marks.at(*path), "kept step") for name, path in self.keep if name not in self.outputs]
        for name, position, kind in places:
            if name in RESERVED:
                self.found.add(f"{kind} '{name}': '--to {name}' means every dataset", position, "choose another name")

    def _declare_steps(self) -> None:
        for index, step in enumerate(self.raw_steps):
            name = step.get("name") if isinstance(step, dict) else None
            if not isinstance(name, str):
                continue
            path: tuple[str | int, ...] = ("steps", index)
            at = self.marks.at(*path, "name")
            if name in self.sources:
                line = self.marks.key("sources", name).line
                self.found.add(f"step '{name}' has the name of a source (line {line}); steps and sources share names",
                               at)  # fmt: skip
            elif name in self.steps:
                line = self.marks.at(*self.steps[name], "name").line
                self.found.add(f"step '{name}' has the name of another step (line {line})", at)
            # Of two steps of one name, what either reads counts as read.
            self.reads.setdefault(name, []).extend(step_inputs(step, path))
            self.steps.setdefault(name, path)

    def _check_inputs(self) -> None:
        if not (self.knows_sources and self.knows_steps):
            return
        known = {**dict.fromkeys(self.sources), **dict.fromkeys(self.steps)}
        for index, step in enumerate(self.raw_steps):
            for name, path in step_inputs(step, ("steps", index)):
                if name not in known:
                    self._add_unknown_name("step or source", name, path, known, "sources and steps here")

    def _check_outputs(self) -> set[str]:
        read: set[str] = set()
        for name, output in self.outputs.items():
            given = output.get("step") if isinstance(output, dict) else None
            step = given if isinstance(given, str) else name
            read.add(step)
            at = ("outputs", name, "step") if isinstance(given, str) else ("outputs", name)
            if step in self.sources and step not in self.steps:
                position = self.marks.at(*at) if at[-1] == "step" else self.marks.key(*at)
                self.found.add(
                    f"output '{name}' names a source; outputs name steps: {join_names(self.steps)}", position
                )
            elif step not in self.steps and self.knows_steps:
                self._add_unknown_name("step", step, at, self.steps, "steps here", key=at[-1] != "step")
            if name != step and (name in self.steps or name in self.sources):
                kind = "step" if name in self.steps else "source"
                self.found.add(f"output '{name}' has the name of another {kind}; it shows step '{step}'",
                               self.marks.key("outputs", name),
                               "give the output a name of its own, or that of its step")  # fmt: skip
        return read

    def _check_keep(self) -> set[str]:
        for name, path in self.keep:
            if name in self.sources and name not in self.steps:
                self.found.add(f"keep names source '{name}'; sources are always kept, keep names steps",
                               self.marks.at(*path))  # fmt: skip
            elif name not in self.steps and self.knows_steps:
                self._add_unknown_name("step", name, path, self.steps, "steps here")
        return {name for name, _ in self.keep}

    def _check_workload(self) -> None:
        kept = {name: None for name, _ in self.keep if name in self.steps}
        upper = ("outputs and kept steps", {**dict.fromkeys(self.outputs), **kept})
        lower = ("sources and kept steps", {**dict.fromkeys(self.sources), **kept})
        seen: dict[str, int] = {}
        for index, query in enumerate(self.workload):
            if not isinstance(query, dict):
                continue
            path: tuple[str | int, ...] = ("lineage", "workload", index)
            name = query.get("name")
            if isinstance(name, str):
                first = seen.setdefault(name, index)
                if first != index:
                    line = self.marks.at("lineage", "workload", first, "name").line
                    self.found.add(f"workload query '{name}' has the name of another one (line {line})",
                                   self.marks.at(*path, "name"))  # fmt: skip
            for key, start, end in (("backward", upper, lower), ("forward", lower, upper)):
                if key in query:
                    self._check_end(query[key], (*path, key), f"a {key} query starts at", start)
                    self._check_end(query.get("to"), (*path, "to"), f"a {key} query leads to", end)

    def _check_end(
        self, value: Any, path: tuple[str | int, ...], role: str, datasets: tuple[str, Mapping[str, None]]
    ) -> None:
        kinds, known = datasets
        for name, at in _references(value, path):
            if name not in known:
                message = f"{role} {kinds}, and '{name}' is none; {kinds} here: {join_names(known)}"
                # A step that is not kept has no dataset, whatever is called nearly like it.
                hint = f"add '{name}' to keep" if name in self.steps else self.found.similar_name_hint(name, known)
                self.found.add(message, self.marks.at(*at), hint)

    def _check_cycles(self) -> None:
        graph = {name: [n for n, _ in refs if n in self.steps] for name, refs in self.reads.items()}
        cycles = find_cycles(graph)
        for cycle in cycles:
            shown = " -> ".join([*cycle, cycle[0]])
            self.found.add(f"steps read each other in a cycle: {shown}", self.marks.at(*self.steps[cycle[0]], "name"))
        if not cycles:
            self._check_depth(graph)

    def _check_depth(self, graph: Mapping[str, list[str]]) -> None:
        """Refuses chains of too many steps, because Spark's plans nest as deep as steps follow each other."""
        depth: dict[str, int] = {}
        for first in graph:
            stack = [first]
            while stack:
                name = stack[-1]
                missing = [each for each in graph.get(name, ()) if each not in depth]
                if missing and name not in depth:
                    stack += missing
                    continue
                stack.pop()
                depth[name] = 1 + max((depth[each] for each in graph.get(name, ())), default=0)
        deepest = next((name for name, number in depth.items() if number > MOST_DEPTH), None)
        if deepest is not None:
            self.found.add(
                f"step '{deepest}' {TOO_DEEP}",
                self.marks.at(*self.steps[deepest], "name"),
                "split the workflow: the second part reads an output of the first",
            )

    def _add_unknown_name(
        self, kind: str, name: str, path: tuple[str | int, ...], known: Collection[str], listing: str, key: bool = False
    ) -> None:
        position = self.marks.key(*path) if key else self.marks.at(*path)
        self.found.add(f"unknown {kind} '{name}'; {listing}: {join_names(known)}", position,
                       self.found.similar_name_hint(name, known))  # fmt: skip


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def find_cycles(graph: Mapping[str, list[str]]) -> list[tuple[str, ...]]:
    """The cycles of the graph, each once, beginning with its first step in file order, in the direction of reading.

    Iterative, because chains of steps may be longer than Python's recursion limit.
    """
    order = {name: index for index, name in enumerate(graph)}
    cycles: dict[tuple[str, ...], None] = {}
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        way, on_way = [start], {start: 0}
        rest = [iter(graph[start])]
        while rest:
            name = next(rest[-1], None)
            if name is None:
                rest.pop()
                done.add(way[-1])
                del on_way[way.pop()]
            elif name in on_way:
                cycle = way[on_way[name] :]
                first = min(range(len(cycle)), key=lambda i: order[cycle[i]])
                cycles[(*cycle[first:], *cycle[:first])] = None
                if len(cycles) >= _MOST_CYCLES:
                    return list(cycles)
            elif name not in done:
                on_way[name] = len(way)
                way.append(name)
                rest.append(iter(graph[name]))
    return list(cycles)
