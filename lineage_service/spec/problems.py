"""Translates errors of pydantic into problems in plain words, with their position in the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lineage_service.errors import Position, Problem, did_you_mean, join_names
from lineage_service.spec.fields import LIST_FORM, MAPPING_FORM, NAME_PATTERN
from lineage_service.spec.foreign_words import hint_for_key, hint_for_value
from lineage_service.spec.models import LineageSpec, WorkloadQuery
from lineage_service.spec.privacy import KeepSpec, PrivacySpec
from lineage_service.spec.source_models import LegalHold
from lineage_service.spec.step_models import CheckSpec
from lineage_service.spec.yaml_tree import YamlPositions

# The models inside others, by the key they are under.
_NESTED: dict[str, type[BaseModel]] = {
    "checks": CheckSpec,
    "keep": KeepSpec,
    "legal_hold": LegalHold,
    "lineage": LineageSpec,
    "privacy": PrivacySpec,
    "workload": WorkloadQuery,
}
_NEEDED = {
    "string_type": "text",
    "int_type": "a whole number",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
}
# Lists of mappings, and mappings of names: how an entry is written.
_ENTRIES = {
    "steps": "begin every step with a dash: `- name: …`, and its other keys below that name",
    "checks": "a list of mappings: [{not_null: [column]}, {where: predicate}]",
    "workload": "a list of mappings: [{name: …, backward: output, to: [source]}]",
}
_MAPPINGS = {
    "sources": "a source's name is its key: `orders: {path: orders.parquet}`, without a dash",
    "outputs": "an output's name is its key: `totals:`, without a dash; nothing needs to stand behind it",
    "vars": "a variable's name is its key: `since: 2024`, without a dash",
    "measures": "a measure's name is its key: {total: sum(amount)}",
    "columns": "a column's name is its key: {double: amount * 2}",
    "options": "an option's name is its key: {header: true}",
}
_ORDERS = ("by", "order_by")
NAME_RULE = "a name is [a-z][a-z0-9_]*: lower-case letters, digits and _, a letter first"

# About a second of looking for similar names, however many are wrong.
_COMPARISONS = 100_000


class Collector:
    """Collects problems and returns them in file order."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._comparisons = _COMPARISONS
        self._silenced: set[Position] = set()

    def add(
        self,
        message: str,
        position: Position | None,
        hint: str | None = None,
        severity: Literal["error", "warning"] = "error",
    ) -> None:
        if position not in self._silenced:
            self._problems.append(Problem(message, position, hint, severity))

    def silence(self, position: Position) -> None:
        """Ignores further problems at this position: its value is not what the user meant, which has been reported."""
        self._silenced.add(position)

    def extend(self, problems: Collection[Problem]) -> None:
        self._problems.extend(problems)

    @property
    def has_errors(self) -> bool:
        return any(problem.severity == "error" for problem in self._problems)

    def similar_name_hint(self, name: str, existing: Collection[str]) -> str | None:
        """A "did you mean" hint, as long as the search is cheap."""
        self._comparisons -= len(existing)
        return did_you_mean(name, existing) if self._comparisons >= 0 and len(name) <= 100 else None

    def in_file_order(self) -> tuple[Problem, ...]:
        def place(problem: Problem) -> tuple[int, int]:
            return (problem.position.line, problem.position.column) if problem.position else (0, 0)

        return tuple(dict.fromkeys(sorted(self._problems, key=place)))


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a model in the file; for a step, without those that every step has."""
    keys = [info.alias or name for name, info in model.model_fields.items()]
    around = {"name": 0, "op": 1, "checks": 3}
    return sorted(keys, key=lambda key: around.get(key, 2)) if "op" in keys else keys


def add_problems(
    error: ValidationError,
    model: type[BaseModel],
    what: str,
    path: tuple[str | int, ...],
    marks: YamlPositions,
    collector: Collector,
) -> None:
    """Adds every problem of one part of the file. `what` names the part ("step 'x' (filter)") and `path` leads
    to it.
    """
    details = error.errors(include_url=False)
    wrong_inside = {detail["loc"][:-1] for detail in details}
    for detail in details:
        if detail["type"] == "too_short" and detail["loc"] in wrong_inside:
            continue  # wrong entries are not counted
        unknown = detail["type"] == "extra_forbidden"
        # "[key]" at the end marks a problem of the key itself (unless a user's key is called that); the others are
        # tags, which are not in the file.
        at_key = detail["loc"][-1:] == ("[key]",) and not unknown
        parts = detail["loc"][:-1] if at_key or unknown else detail["loc"]
        loc = tuple(part for part in parts if part not in (LIST_FORM, MAPPING_FORM))
        loc = (*loc, detail["loc"][-1]) if unknown else loc
        if detail["type"] == "missing":
            collector.add(f"{_location_text(loc[:-1], what)} needs '{loc[-1]}'", marks.at(*path, *loc[:-1]))
        elif unknown:
            inner = _NESTED.get(_last_word(loc[:-1]), model)
            keys = keys_of(inner)
            message = f"unknown key '{loc[-1]}' in {_location_text(loc[:-1], what)}; keys here: {join_names(keys, 20)}"
            hint = hint_for_key(str(loc[-1]), *_kinds(inner)) or collector.similar_name_hint(str(loc[-1]), keys)
            collector.add(message, marks.key(*path, *loc), hint)
        else:
            message, hint = _message_and_hint(detail, _location_text(loc, what), collector)
            collector.add(message, marks.key(*path, *loc) if at_key else marks.at(*path, *loc), hint)


def _kinds(model: type[BaseModel]) -> tuple[str, ...]:
    """The names under which hints for a model's keys are looked up: for a step its op, and those of all steps."""
    op = model.model_fields.get("op")
    if op is not None:
        return (*get_args(op.annotation), "step")
    return (model.__name__,)


def _last_word(loc: tuple[str | int, ...]) -> str:
    return next((part for part in reversed(loc) if isinstance(part, str)), "")


def _location_text(loc: tuple[str | int, ...], what: str) -> str:
    """The name of a location, from the inside out: 'severity' of entry 1 of 'checks' of step 'x' (filter)."""
    parts = [f"entry {part + 1}" if isinstance(part, int) else f"'{part}'" for part in reversed(loc)]
    return " of ".join([*parts, what])


def _message_and_hint(detail: ErrorDetails, thing: str, collector: Collector) -> tuple[str, str | None]:
    """The message and hint for a wrong value."""
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    match kind:
        case "refused":
            # "needs …" goes on with the thing's name; a sentence of its own follows it.
            joint = " " if str(context["message"]).startswith(("needs ", "is ", "renames ")) else ": "
            return f"{thing}{joint}{context['message']}", None
        case "literal_error":
            expected = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
            hint = (
                (hint_for_value(value, expected) or collector.similar_name_hint(value, expected))
                if isinstance(value, str)
                else None
            )
            hint = "write it without quotes" if value in expected else hint
            return f"{thing} is {_value_text(value)}; it can be: {join_names(expected)}", hint
        case "string_pattern_mismatch" if context["pattern"] == NAME_PATTERN:
            return f"{_value_text(value)} is not a valid name; {NAME_RULE}", None
        case "string_pattern_mismatch":
            return f"{thing} is {_value_text(value)}; it needs to be workflow.name", None
        case "too_short":
            least = context["min_length"]
            return f"{thing} needs at least {'one entry' if least == 1 else f'{least} entries'}", None
        case "greater_than_equal":
            return f"{thing} is {_value_text(value)}; it needs to be {context['ge']} or more", None
        case "less_than_equal":
            return f"{thing} is {_value_text(value)}; it needs to be {context['le']} or less", None
        case "tuple_type" if LIST_FORM in detail["loc"]:
            return f"{thing} needs a list or a mapping, not {_value_text(value)}", _list_hint(value)
        case "bool_type":
            hint = "YAML 1.2 knows only true and false" if isinstance(value, str) else None
            return f"{thing} needs true or false, not {_value_text(value)}", hint
        case "tuple_type":
            hint = _ENTRIES.get(_last_word(detail["loc"])) or _list_hint(value)
            return f"{thing} needs {_NEEDED[kind]}, not {_value_text(value)}", hint
        case "string_type" if isinstance(value, list | tuple) and _last_word(detail["loc"]) == "on":
            return f"{thing} needs text, not a list", "columns of the same name on both sides: `using: [column, …]`"
        case "string_type" if isinstance(value, Mapping) and len(value) == 1 and _last_word(detail["loc"]) in _ORDERS:
            ((name, direction),) = value.items()
            return f"{thing} needs text, not a mapping", f"write '{name} {direction}'" if direction else None
        case _ if kind in _NEEDED:
            return f"{thing} needs {_NEEDED[kind]}, not {_value_text(value)}", _mapping_hint(detail, thing)
        case _:
            return f"{thing} is wrong: {detail['msg']}", None


def _list_hint(value: Any) -> str | None:
    """How to write a single word where a list is required."""
    return f"write [{value}]" if isinstance(value, str) and re.fullmatch(r"\w{1,60}(, *\w{1,60}){,9}", value) else None


def _mapping_hint(detail: ErrorDetails, thing: str) -> str | None:
    """How to write an entry where a mapping is required."""
    value, word = detail["input"], _last_word(detail["loc"])
    if detail["type"] not in ("dict_type", "model_type", "model_attributes_type"):
        return None
    if isinstance(value, str) and not word and thing.startswith(("source ", "output ")):
        return f"write {{path: {_value_text(value)[1:-1]}}}"
    if isinstance(value, str) and word == "checks":
        return _ENTRIES["checks"]
    if isinstance(value, list | tuple):
        return _MAPPINGS.get(word)
    return None


def _value_text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"'{text}'" if isinstance(value, str) else text
