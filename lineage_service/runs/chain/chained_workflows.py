"""Several workflows: loaded, put in dependency order, selected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lineage_service.errors import (
    LineageError,
    Position,
    Problem,
    QuestionError,
    WorkflowError,
    did_you_mean,
    join_names,
)
from lineage_service.spec.given_sources import GivenSources, without_sources
from lineage_service.spec.loader import LoadedWorkflow, load_workflow, variables_of_file
from lineage_service.spec.models import SourceSpec
from lineage_service.spec.name_checks import find_cycles
from lineage_service.spec.query_file import is_query_file
from lineage_service.store.dataset_names import DatasetName


@dataclass(frozen=True)
class ChainedWorkflow:
    """A workflow of a chain.

    file: its file · loaded: what is in it · variables, sources: what it is given
    reads: the workflows of the chain whose outputs it reads
    """

    file: Path
    loaded: LoadedWorkflow
    variables: Mapping[str, str]
    sources: GivenSources
    reads: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.loaded.spec.name


@dataclass(frozen=True)
class Chain:
    """Workflows by name; each stands behind those that it reads."""

    workflows: Mapping[str, ChainedWorkflow]

    def select(self, patterns: Sequence[str]) -> Chain:
        """Those that one of the patterns picks: NAME, NAME+ with all that depend on it, +NAME with all that it needs.
        Raises QuestionError for a name that is none here.
        """
        chosen: set[str] = set()
        for pattern in (word for text in patterns for word in text.split()):
            name = pattern.removeprefix("+").removesuffix("+")
            if name not in self.workflows:
                hint = did_you_mean(name, self.workflows) or "NAME+ adds what depends on it, +NAME what it needs"
                raise QuestionError(f"no workflow '{name}' here; workflows: {join_names(self.workflows)}", hint=hint)
            chosen.add(name)
            if pattern.startswith("+"):
                chosen |= _reachable(name, {each: item.reads for each, item in self.workflows.items()})
            if pattern.endswith("+"):
                chosen |= _reachable(name, self._readers())
        return Chain({name: item for name, item in self.workflows.items() if name in chosen})

    def _readers(self) -> dict[str, list[str]]:
        readers: dict[str, list[str]] = {}
        for name, item in self.workflows.items():
            for read in item.reads:
                readers.setdefault(read, []).append(name)
        return readers


def load_chain(
    files: Sequence[Path],
    variables: Mapping[str, str],
    sources: GivenSources,
    is_dataset: Callable[[str], bool],
) -> Chain:
    """The workflows of the files, in dependency order. WorkflowError lists all problems of the files.

    `is_dataset` returns whether the home has a dataset of that name: a workflow may read what is not in the chain.
    """
    items, problems = _load_all(files, variables, sources)
    if problems:
        raise WorkflowError(problems)
    items, problems = _with_reads(items, is_dataset)
    problems += _cycles(items)
    if problems:
        raise WorkflowError(problems)
    return Chain(_in_order(items))


def _load_all(
    files: Sequence[Path], variables: Mapping[str, str], sources: GivenSources
) -> tuple[dict[str, ChainedWorkflow], list[Problem]]:
    found: dict[str, ChainedWorkflow] = {}
    problems: list[Problem] = []
    declared: set[str] = set()
    unused: list[frozenset[str]] = []
    for file in files:
        try:
            own = variables_of_file(file) if variables else set()
            declared |= own
            given = {name: value for name, value in variables.items() if name in own}
            loaded = load_workflow(file, given, sources if is_query_file(file) else ())
        except LineageError as error:
            problems += error.problems
            continue
        problems += loaded.errors
        if is_query_file(file):
            unused.append(loaded.unused_sources)
        name = loaded.spec.name
        if name in found and not loaded.errors:
            place = loaded.marks.at("name")
            message = f"workflow name '{name}' is already used by '{found[name].file}'"
            problems.append(Problem(message, place, "rename one of them"))
        found.setdefault(name, ChainedWorkflow(file, loaded, given, sources if is_query_file(file) else ()))
    if not problems:
        problems += [_unknown_variable(name, declared) for name in variables if name not in declared]
    if sources and not unused and not problems:
        problems.append(Problem("--source applies only to .sql files, and none of the files is one"))
    unused_by_all = frozenset.intersection(*unused) if unused else frozenset()
    return {name: _with_own_sources(item, unused_by_all) for name, item in found.items()}, problems


def _with_own_sources(item: ChainedWorkflow, unused_by_all: frozenset[str]) -> ChainedWorkflow:
    """The workflow without sources that only other queries use, so that its run does not warn about them."""
    return replace(item, sources=without_sources(item.sources, item.loaded.unused_sources - unused_by_all))


def _unknown_variable(name: str, declared: Iterable[str]) -> Problem:
    known = sorted(declared)
    return Problem(
        f"no workflow here has a variable '{name}'; variables: {join_names(known)}", hint=did_you_mean(name, known)
    )


def _with_reads(
    items: Mapping[str, ChainedWorkflow], is_dataset: Callable[[str], bool]
) -> tuple[dict[str, ChainedWorkflow], list[Problem]]:
    found: dict[str, ChainedWorkflow] = {}
    problems: list[Problem] = []
    for name, item in items.items():
        reads: dict[str, None] = {}
        for source, spec in item.loaded.spec.sources.items():
            if not isinstance(spec, SourceSpec) or spec.output is None:
                continue
            read = _workflow_of(item, source, spec.output, items)
            if isinstance(read, Problem):
                problems.append(read)
            elif read is None:
                if not is_dataset(spec.output):
                    problems.append(_unknown_output(item, source, spec.output, items))
            elif read != name:
                reads[read] = None
        found[name] = replace(item, reads=tuple(reads))
    return found, problems


def _workflow_of(
    item: ChainedWorkflow, source: str, output: str, items: Mapping[str, ChainedWorkflow]
) -> str | Problem | None:
    """The workflow of the chain whose output a source is, by its name or by that of the output alone; None where it is
    none of the chain, or a certain run of one.
    """
    asked = DatasetName.parse(output)
    if asked.run is not None:
        return None
    if asked.workflow is None:
        makers = [name for name, other in items.items() if asked.name in _made(other)]
        if len(makers) < 2:
            return makers[0] if makers else None
        full = [f"{name}.{asked.name}" for name in makers]
        return Problem(f"source '{source}': several workflows make '{output}': {join_names(full)}",
                       _place(item, source), "qualify it: WORKFLOW.OUTPUT")  # fmt: skip
    if asked.workflow not in items:
        return None
    made = _made(items[asked.workflow])
    if asked.name in (*made, *items[asked.workflow].loaded.spec.sources):
        return asked.workflow
    message = (
        f"source '{source}': workflow '{asked.workflow}' has no output '{asked.name}'; outputs: {join_names(made)}"
    )
    return Problem(message, _place(item, source), did_you_mean(asked.name, made))


def _made(item: ChainedWorkflow) -> list[str]:
    """The datasets that a workflow makes."""
    return list(dict.fromkeys([*item.loaded.spec.outputs, *item.loaded.spec.lineage.keep]))


def _unknown_output(item: ChainedWorkflow, source: str, output: str, items: Mapping[str, ChainedWorkflow]) -> Problem:
    assumed = item.loaded.assumed_outputs.get(source)
    made = [f"{name}.{each}" for name, other in items.items() for each in _made(other)]
    hint = did_you_mean(output, [*made, *(each.partition(".")[2] for each in made)])
    if assumed is not None:
        return replace(assumed, hint=hint or assumed.hint)
    message = f"source '{source}': unknown output '{output}': neither these workflows nor a run in this home has it"
    return Problem(f"{message}; outputs here: {join_names(made)}", _place(item, source), hint)


def _place(item: ChainedWorkflow, source: str) -> Position:
    return item.loaded.marks.at("sources", source, "output")


def _cycles(items: Mapping[str, ChainedWorkflow]) -> list[Problem]:
    found = []
    for cycle in find_cycles({name: list(item.reads) for name, item in items.items()}):
        item, read = items[cycle[0]], cycle[1 % len(cycle)]
        source = next(
            name
            for name, spec in item.loaded.spec.sources.items()
            if isinstance(spec, SourceSpec) and spec.output and _workflow_of(item, name, spec.output, items) == read
        )
        shown = " -> ".join([*cycle, cycle[0]])
        found.append(Problem(f"workflows read each other's outputs in a cycle: {shown}", _place(item, source)))
    return found


def _in_order(items: Mapping[str, ChainedWorkflow]) -> dict[str, ChainedWorkflow]:
    """Those that are read before those that read them, otherwise as given."""
    ordered: dict[str, ChainedWorkflow] = {}
    while len(ordered) < len(items):
        name = next(each for each in items if each not in ordered and all(r in ordered for r in items[each].reads))
        ordered[name] = items[name]
    return ordered


def _reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    pending = [start]
    while pending:
        for each in edges.get(pending.pop(), ()):
            if each not in found:
                found.add(each)
                pending.append(each)
    return found
