"""A workflow file to its spec, with all problems that can be found without the schemas of the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lineage_service.errors import DamagedFile, Position, Problem, WorkflowError, join_names
from lineage_service.spec.environment import (
    HiddenValues,
    UsedEnvironment,
    mark_of,
    texts_with_marks,
    with_references,
    with_values,
)
from lineage_service.spec.foreign_words import hint_for_key, hint_for_op
from lineage_service.spec.given_sources import GivenSources
from lineage_service.spec.models import BrokenOutput, BrokenSource, BrokenStep, OutputSpec, WorkflowKeys, WorkflowSpec
from lineage_service.spec.name_checks import check_names, step_inputs
from lineage_service.spec.problems import Collector, add_problems
from lineage_service.spec.query_file import (
    QueryFile,
    is_query_file,
    query_name,
    read_query_file,
    with_tables_as_sources,
)
from lineage_service.spec.reader_options import option_problems
from lineage_service.spec.source_models import SourceSpec
from lineage_service.spec.sql_steps import SqlSources, read_sql_files, with_tables_read
from lineage_service.spec.sql_text import SqlText
from lineage_service.spec.step_models import STEP_TYPES, Step
from lineage_service.spec.variables import (
    SUBSTITUTED,
    referenced_variables,
    substitute_variables,
    variable_values,
    warn_of_unused,
)
from lineage_service.spec.yaml_scalars import SourceFloat
from lineage_service.spec.yaml_tree import Tree, YamlPositions, read_text, read_tree

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
    hidden: replaces these values by references in what is shown.
    problems: all that was found, errors and warnings, in file order.
    unresolved: paths of the strings with a variable that has no value. That is reported once; these strings are not
        checked further.
    sql_texts: the queries of sql steps and their places, by the step's index; none of a recorded workflow.
    assumed_outputs: sources that a .sql file does not say to be outputs of other workflows, though they can be nothing
        else; and the problem where there is no such output.
    unused_sources: tables for which a source was given, and that a .sql file does not name; in lower case.
    """

    spec: WorkflowSpec
    path: Path
    marks: YamlPositions
    version: str
    variables: dict[str, str]
    problems: tuple[Problem, ...]
    kept: LoadedWorkflow | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    hidden: HiddenValues = field(default_factory=HiddenValues)
    unresolved: frozenset[tuple[str | int, ...]] = frozenset()
    sql_texts: Mapping[int, SqlText] = field(default_factory=dict)
    assumed_outputs: Mapping[str, Problem] = field(default_factory=dict)
    unused_sources: frozenset[str] = frozenset()

    def content_to_show(self) -> dict[str, Any]:
        """The spec as JSON, with references instead of values of the environment, as in the catalog."""
        content: dict[str, Any] = (self.kept or self).spec.model_dump(mode="json", by_alias=True)
        return content if self.kept is None else with_references(content)

    def unresolved_parts(self) -> set[tuple[str | int, ...]]:
        """The sources, steps and outputs that contain an unresolved text: ("steps", 2)."""
        return {path[:2] for path in self.unresolved}

    def unresolved_positions(self) -> set[Position]:
        return {self.marks.at(*path) for path in self.unresolved}

    @property
    def errors(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "error")


def load_workflow(
    path: str | Path, variables: Mapping[str, str] | None = None, sources: GivenSources = ()
) -> LoadedWorkflow:
    """Reads a workflow file, YAML or a single query. Problems are collected, not raised. `sources` are the paths of
    tables in a query.

    Raises NotFound or WorkflowError only if nothing can be loaded: the file is missing, unreadable, not YAML, or not a
    mapping.
    """
    tree = _read(Path(path), variables or {}, sources)
    environment = UsedEnvironment()
    loaded = _load_tree(tree, Path(path), variables or {}, environment)
    if not environment.used:
        return loaded
    loaded = replace(
        loaded, environment=environment.used, hidden=_hidden_values(tree.tree, variables or {}, environment)
    )
    if loaded.errors:
        return loaded
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
    return replace(loaded, kept=kept, problems=problems)


def variables_of_file(path: Path) -> set[str]:
    """The variables that a workflow file has. Raises where it cannot be read."""
    if is_query_file(path):
        return set(dict(referenced_variables(read_text(path, str(path)))))
    declared = read_tree(path, str(path)).value.get("vars")
    return set(declared) if isinstance(declared, dict) else set()


def declared_outputs(path: Path) -> tuple[str, list[str]]:
    """The name of a workflow and its outputs and kept steps, as far as its file says so. Raises where it cannot be
    read.
    """
    if is_query_file(path):
        return query_name(path), [query_name(path)]
    tree = read_tree(path, str(path)).value
    outputs, lineage = tree.get("outputs"), tree.get("lineage")
    kept = lineage.get("keep") if isinstance(lineage, dict) else None
    names = [*(outputs if isinstance(outputs, dict) else ()), *(kept if isinstance(kept, list) else ())]
    return str(tree.get("name")), [str(name) for name in names]


def _read(path: Path, variables: Mapping[str, str], sources: GivenSources) -> SqlSources | QueryFile:
    if is_query_file(path):
        return read_query_file(path, sources, variables)
    read = read_sql_files(read_tree(path, str(path)), path, variables)
    if sources:
        message = "sources are given only for a .sql file: a YAML file says where its own are"
        raise WorkflowError(Problem(message, read.tree.marks.key("sources")))
    return read


def _hidden_values(tree: Tree, variables: Mapping[str, str], environment: UsedEnvironment) -> HiddenValues:
    """The texts of a file with values of the environment. File paths are shown with values, because they are stored
    too, and messages about a file would be useless without them.
    """

    def substitute(environment: UsedEnvironment) -> dict[str, Any]:
        ignored = Collector()
        values = variable_values(tree.value.get("vars"), variables, tree.marks, ignored, environment)
        whole = substitute_variables(tree.value, values, tree.marks, ignored, environment).tree
        return {key: whole[key] for key in SUBSTITUTED if key in whole}

    found = [
        each
        for each in texts_with_marks(substitute(UsedEnvironment()), substitute(UsedEnvironment(marked=True)))
        if not (each[0][0] in ("sources", "outputs") and each[0][2:] == ("path",))
    ]
    return HiddenValues(
        {text: shown for _, text, shown in found},
        {value: f"${{env:{name}}}" for name, value in environment.used.items()},
        frozenset(tree.marks.at(*path) for path, _, _ in found),
    )


def _load_tree(
    read: SqlSources | QueryFile, path: Path, variables: Mapping[str, str], environment: UsedEnvironment
) -> LoadedWorkflow:
    tree = read.tree
    marks, found = tree.marks, Collector()
    found.extend(tree.problems)
    values = variable_values(tree.value.get("vars"), variables, marks, found, environment)
    replaced = substitute_variables(tree.value, values, marks, found, environment)
    content, assumed, unresolved, unused = tree.value, dict[str, Problem](), replaced.unresolved, frozenset[str]()
    if isinstance(read, QueryFile):
        query = with_tables_as_sources(read, replaced.tree, values, environment, found)
        whole, sql_texts, assumed = query.whole, {0: query.text}, dict(query.assumed)
        named = {table: path for table, path in tree.value["sources"].items() if table in query.names}
        content, unused = {**content, "sources": named}, frozenset(read.given) - set(named)
        unresolved |= set() if query.readable else {("steps", 0, "query")}
    else:
        whole, sql_texts = with_tables_read(replaced.tree, read.texts, values, environment, replaced.unresolved, found)
    parts: dict[str, Any] = {}
    for key, part in (("sources", _sources), ("steps", _steps), ("outputs", _outputs)):
        if isinstance(whole.get(key), list if key == "steps" else dict):
            parts[key] = part(whole[key], marks, found)
    spec = _assemble_spec(whole, parts, marks, found)
    check_names(whole, marks, found)
    if not found.has_errors:
        files = read.files if isinstance(read, SqlSources) else ()
        warn_of_unused([*(tree.value.get(key) for key in SUBSTITUTED), *files], values, marks, found)
    return LoadedWorkflow(
        spec=spec,
        path=path.absolute(),
        marks=marks,
        version=content_version(content),
        variables={name: value or "" for name, value in values.items()},
        problems=found.in_file_order(),
        unresolved=unresolved,
        sql_texts=sql_texts,
        assumed_outputs=assumed,
        unused_sources=unused,
    )


def load_recorded_workflow(content: str, told_as: str) -> LoadedWorkflow:
    """A workflow as a run read it, from its content in the catalog. All its positions are `told_as`."""
    try:
        spec = WorkflowSpec.model_validate_json(content)
    except ValidationError:
        raise DamagedFile(f"what the catalog holds of the workflow of {told_as} cannot be read") from None
    return LoadedWorkflow(spec, Path(), YamlPositions(told_as), "", {}, ())


def load_recorded_with_environment(body: dict[str, Any], values: Mapping[str, str], told_as: str) -> LoadedWorkflow:
    """A recorded workflow whose content, `body`, has references to the environment, with the values that its
    run read.
    """
    used, marked = with_values(body, values), with_values(body, {name: mark_of(name) for name in values})
    return replace(
        load_recorded_workflow(json.dumps(used), told_as),
        kept=load_recorded_workflow(json.dumps(marked), told_as),
        environment=values,
        hidden=HiddenValues({text: shown for _, text, shown in texts_with_marks(used, marked)}),
    )


def content_version(tree: Mapping[str, Any]) -> str:
    """The hash of a file's content before substitution. Of `vars`, only the names count."""
    declared = tree.get("vars")
    names = sorted(declared) if isinstance(declared, dict) else []
    canonical = json.dumps({**_canonical(dict(tree)), "vars": names}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _canonical(node: Any) -> Any:
    """Floats are replaced by their text: 1.50 and 1.5 are different expressions, and JSON has no infinity."""
    if isinstance(node, dict):
        return {key: _canonical(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_canonical(value) for value in node]
    return node.text if isinstance(node, SourceFloat) else node


def _sources(raw: dict[str, Any], marks: YamlPositions, collector: Collector) -> dict[str, SourceSpec | BrokenSource]:
    sources: dict[str, SourceSpec | BrokenSource] = {}
    for name, value in raw.items():
        try:
            sources[name] = source = SourceSpec.model_validate(value)
        except ValidationError as error:
            add_problems(error, SourceSpec, f"source '{name}'", ("sources", name), marks, collector)
            sources[name] = BrokenSource(name)
        else:
            # Not in the model: what an earlier version has read and kept is still a source.
            for each in option_problems(source):
                place = (marks.key if each.of_key else marks.at)("sources", name, "options", each.key)
                collector.add(f"source '{name}': {each.message}", place, each.hint, each.severity)
    return sources


def _outputs(raw: dict[str, Any], marks: YamlPositions, collector: Collector) -> dict[str, OutputSpec | BrokenOutput]:
    outputs: dict[str, OutputSpec | BrokenOutput] = {}
    for name, value in raw.items():
        # `totals:` alone means the defaults, and the step is the output's own where none is named.
        given = {"step": name, **value} if isinstance(value, dict) else {"step": name} if value is None else value
        try:
            outputs[name] = OutputSpec.model_validate(given)
        except ValidationError as error:
            add_problems(error, OutputSpec, f"output '{name}'", ("outputs", name), marks, collector)
            step = given.get("step") if isinstance(given, dict) else None
            outputs[name] = BrokenOutput(name, step if isinstance(step, str) else None)
    return outputs


def _steps(raw: list[Any], marks: YamlPositions, collector: Collector) -> tuple[Step | BrokenStep, ...]:
    return tuple(_step(index, value, marks, collector) for index, value in enumerate(raw))


def _step(index: int, raw: Any, marks: YamlPositions, collector: Collector) -> Step | BrokenStep:
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
        collector.add(f"{what} needs to be a mapping with name, op and the op's keys", marks.at(*path))
        return broken
    if op is None:
        hint = next((f"write `op: {key}`, and its keys beside it" for key in raw if key in STEP_TYPES), None)
        hint = hint or next((hint for key in raw if (hint := hint_for_key(str(key), "step"))), None)
        collector.add(f"{what} needs 'op'; ops: {join_names(STEP_TYPES, 20)}", marks.at(*path), hint)
        return broken
    if not isinstance(op, str):
        collector.add(f"'op' of {what} needs one of these words: {join_names(STEP_TYPES, 20)}", marks.at(*path, "op"))
        return broken
    if op == "pyspark":
        message = f"op 'pyspark' in {what}: a data frame of a program is no step that a workflow file can have"
        collector.add(message, marks.at(*path, "op"), "run the program itself: `smoke-lineage run job.py`")
        return broken
    if op not in STEP_TYPES:
        hint = hint_for_op(op) or collector.similar_name_hint(op, STEP_TYPES)
        collector.add(f"unknown op '{op}' in {what}; ops: {join_names(STEP_TYPES, 20)}", marks.at(*path, "op"), hint)
        return broken
    model = STEP_TYPES[op]
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        add_problems(error, model, f"{what} ({op})", path, marks, collector)
        return broken


def _assemble_spec(
    whole: Mapping[str, Any], parts: Mapping[str, Any], marks: YamlPositions, collector: Collector
) -> WorkflowSpec:
    """The spec of all parts. Wrong keys at the top level are replaced by defaults or placeholders."""
    data = {**whole, **parts}
    try:
        return WorkflowSpec.of_parts(data)
    except ValidationError as error:
        add_problems(error, WorkflowKeys, "the workflow", (), marks, collector)
        wrong = {str(detail["loc"][0]) for detail in error.errors(include_url=False, include_input=False)}
        usable = {key: value for key, value in data.items() if key not in wrong}
        spec = WorkflowSpec.of_parts({**_STAND_INS, **usable})
        empty: dict[str, Any] = {"sources": {}, "steps": (), "outputs": {}}
        replaced = {key: parts.get(key, nothing) for key, nothing in empty.items() if key in wrong}
        return spec.model_copy(update=replaced)
