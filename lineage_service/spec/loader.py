"""A workflow file -> its spec, with every problem that can be told without the data's schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lineage_service.errors import DamagedFile, Position, Problem, join_names
from lineage_service.spec.environment import UsedEnvironment
from lineage_service.spec.foreign_words import hint_for_key, hint_for_op
from lineage_service.spec.models import (
    STEP_TYPES,
    BrokenOutput,
    BrokenSource,
    BrokenStep,
    OutputSpec,
    Step,
    WorkflowKeys,
    WorkflowSpec,
)
from lineage_service.spec.name_checks import check_names, step_inputs
from lineage_service.spec.problems import Collector, add_problems
from lineage_service.spec.reader_options import option_problems
from lineage_service.spec.source_models import SourceSpec
from lineage_service.spec.variables import substitute_variables, variable_values, warn_of_unused
from lineage_service.spec.yaml_tree import SourceFloat, Tree, YamlPositions, read_tree

# Stand in for required keys that are wrong, so that the rest of the file still becomes a spec.
_STAND_INS: dict[str, Any] = {
    "version": 1,
    "name": "unnamed",
    "sources": {"unnamed": BrokenSource("unnamed")},
    "steps": (BrokenStep(None, None),),
    "outputs": {"unnamed": BrokenOutput("unnamed")},
}


@dataclass(frozen=True, slots=True)
class LoadedWorkflow:
    """A workflow file as it was read.

    spec: the parts that failed validation are Broken placeholders in it.
    path: the file, absolute.
    marks: the place of each key and value.
    version: sha256 (hex) of the canonical content; the same for files that differ in comments, formatting, order of
        keys or defaults of variables only.
    variables: the values used.
    kept: the same workflow with marks in the place of values of the environment, to be stored; None without any.
    environment: the values of the environment that it reads.
    problems: all that was found, errors and warnings, in file order.
    unresolved: paths of the strings with a variable that has no value; that is told, and they are not looked at.
    """

    spec: WorkflowSpec
    path: Path
    marks: YamlPositions
    version: str
    variables: dict[str, str]
    problems: tuple[Problem, ...]
    kept: LoadedWorkflow | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    unresolved: frozenset[tuple[str | int, ...]] = frozenset()

    def unresolved_parts(self) -> set[tuple[str | int, ...]]:
        """The sources, steps and outputs that have an unresolved string inside: ("steps", 2)."""
        return {path[:2] for path in self.unresolved}

    def unresolved_positions(self) -> set[Position]:
        return {self.marks.at(*path) for path in self.unresolved}

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load_workflow(path: str | Path, variables: Mapping[str, str] | None = None) -> LoadedWorkflow:
    """Reads a workflow file; problems are collected, not raised.

    Raises NotFound or WorkflowError only where there is nothing to go on with: the file is not there, cannot be
    read, is not YAML, or is not a mapping.
    """
    tree = read_tree(Path(path), str(path))
    environment = UsedEnvironment()
    loaded = _load_tree(tree, Path(path), variables or {}, environment)
    if not environment.used or loaded.errors:
        return replace(loaded, environment=environment.used)
    kept = _load_tree(tree, Path(path), variables or {}, UsedEnvironment(marked=True))
    problems = loaded.problems
    if kept.errors:  # a number, or one of several words
        problems = tuple(
            Problem(
                "a value of the environment cannot stand here: only texts are kept as references",
                each.position,
                "declare a variable under `vars:` and give it with --var",
            )
            for each in kept.errors
        )
    return replace(loaded, environment=environment.used, kept=kept, problems=problems)


def _load_tree(tree: Tree, path: Path, variables: Mapping[str, str], environment: UsedEnvironment) -> LoadedWorkflow:
    marks, found = tree.marks, Collector()
    found.extend(tree.problems)
    values = variable_values(tree.value.get("vars"), variables, marks, found, environment)
    replaced = substitute_variables(tree.value, values, marks, found, environment)
    whole = replaced.tree
    parts: dict[str, Any] = {}
    for key, part in (("sources", _sources), ("steps", _steps), ("outputs", _outputs)):
        if isinstance(whole.get(key), list if key == "steps" else dict):
            parts[key] = part(whole[key], marks, found)
    spec = _assemble_spec(whole, parts, marks, found)
    check_names(whole, marks, found)
    if not found.has_errors:
        warn_of_unused(tree.value, values, marks, found)
    return LoadedWorkflow(
        spec=spec,
        path=path.absolute(),
        marks=marks,
        version=content_version(tree.value),
        variables={name: value or "" for name, value in values.items()},
        problems=found.in_file_order(),
        unresolved=replaced.unresolved,
    )


def load_recorded_workflow(content: str, told_as: str) -> LoadedWorkflow:
    """A workflow as a run has read it, from what the catalog holds of it; its places are all `told_as`."""
    try:
        spec = WorkflowSpec.model_validate_json(content)
    except ValidationError:
        raise DamagedFile(f"what the catalog holds of the workflow of {told_as} cannot be read") from None
    return LoadedWorkflow(spec, Path(), YamlPositions(told_as), "", {}, ())


def content_version(tree: Mapping[str, Any]) -> str:
    """The hash of a file's content before substitution; of `vars`, only the names count."""
    declared = tree.get("vars")
    names = sorted(declared) if isinstance(declared, dict) else []
    canonical = json.dumps({**_canonical(dict(tree)), "vars": names}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _canonical(node: Any) -> Any:
    """Floats by their text: 1.50 and 1.5 are different expressions, and JSON has no infinity."""
    if isinstance(node, dict):
        return {key: _canonical(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_canonical(value) for value in node]
    return node.text if isinstance(node, SourceFloat) else node


def _sources(raw: dict[str, Any], marks: YamlPositions, found: Collector) -> dict[str, SourceSpec | BrokenSource]:
    sources: dict[str, SourceSpec | BrokenSource] = {}
    for name, value in raw.items():
        try:
            sources[name] = source = SourceSpec.model_validate(value)
        except ValidationError as error:
            add_problems(error, SourceSpec, f"source '{name}'", ("sources", name), marks, found)
            sources[name] = BrokenSource(name)
        else:
            # Not in the model: what an earlier version has read and kept is still a source.
            for each in option_problems(source):
                place = (marks.key if each.of_key else marks.at)("sources", name, "options", each.key)
                found.add(f"source '{name}': {each.message}", place, each.hint, each.severity)
    return sources


def _outputs(raw: dict[str, Any], marks: YamlPositions, found: Collector) -> dict[str, OutputSpec | BrokenOutput]:
    outputs: dict[str, OutputSpec | BrokenOutput] = {}
    for name, value in raw.items():
        # `totals:` alone means the defaults, and the step is the output's own where none is named.
        given = {"step": name, **value} if isinstance(value, dict) else {"step": name} if value is None else value
        try:
            outputs[name] = OutputSpec.model_validate(given)
        except ValidationError as error:
            add_problems(error, OutputSpec, f"output '{name}'", ("outputs", name), marks, found)
            step = given.get("step") if isinstance(given, dict) else None
            outputs[name] = BrokenOutput(name, step if isinstance(step, str) else None)
    return outputs


def _steps(raw: list[Any], marks: YamlPositions, found: Collector) -> tuple[Step | BrokenStep, ...]:
    return tuple(_step(index, value, marks, found) for index, value in enumerate(raw))


def _step(index: int, raw: Any, marks: YamlPositions, found: Collector) -> Step | BrokenStep:
    path = ("steps", index)
    name = raw.get("name") if isinstance(raw, dict) else None
    op = raw.get("op") if isinstance(raw, dict) else None
    what = f"step '{name}'" if isinstance(name, str) else f"step {index + 1}"
    broken = BrokenStep(
        name if isinstance(name, str) else None,
        op if isinstance(op, str) else None,
        tuple(reference for reference, _ in step_inputs(raw)),
    )
    if not isinstance(raw, dict):
        found.add(f"{what} needs to be a mapping with name, op and the op's keys", marks.at(*path))
        return broken
    if op is None:
        hint = next((f"write `op: {key}`, and its keys beside it" for key in raw if key in STEP_TYPES), None)
        hint = hint or next((hint for key in raw if (hint := hint_for_key(str(key), "step"))), None)
        found.add(f"{what} needs 'op'; ops: {join_names(STEP_TYPES, 20)}", marks.at(*path), hint)
        return broken
    if not isinstance(op, str):
        found.add(f"'op' of {what} needs one of these words: {join_names(STEP_TYPES, 20)}", marks.at(*path, "op"))
        return broken
    if op not in STEP_TYPES:
        hint = hint_for_op(op) or found.similar_name_hint(op, STEP_TYPES)
        found.add(f"unknown op '{op}' in {what}; ops: {join_names(STEP_TYPES, 20)}", marks.at(*path, "op"), hint)
        return broken
    model = STEP_TYPES[op]
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        add_problems(error, model, f"{what} ({op})", path, marks, found)
        return broken


def _assemble_spec(
    whole: Mapping[str, Any], parts: Mapping[str, Any], marks: YamlPositions, found: Collector
) -> WorkflowSpec:
    """The spec of all parts; keys that are wrong at the top are replaced by defaults or stand-ins."""
    data = {**whole, **parts}
    try:
        return WorkflowSpec.of_parts(data)
    except ValidationError as error:
        add_problems(error, WorkflowKeys, "the workflow", (), marks, found)
        wrong = {str(detail["loc"][0]) for detail in error.errors(include_url=False, include_input=False)}
        usable = {key: value for key, value in data.items() if key not in wrong}
        spec = WorkflowSpec.of_parts({**_STAND_INS, **usable})
        empty: dict[str, Any] = {"sources": {}, "steps": (), "outputs": {}}
        replaced = {key: parts.get(key, nothing) for key, nothing in empty.items() if key in wrong}
        return spec.model_copy(update=replaced)
