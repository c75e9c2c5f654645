"""A step in one line. Works on the step as JSON, as in the catalog, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

INPUT_KEYS = ("input", "left", "right", "inputs")

StepJson = Mapping[str, Any]


def inputs_of(step: StepJson) -> tuple[str, ...]:
    """The names of the steps and sources that a step reads, in order."""
    values = (step[key] for key in INPUT_KEYS if step.get(key))
    return tuple(name for value in values for name in ((value,) if isinstance(value, str) else value))


def operator_of(step: StepJson) -> str:
    """The operator in common terms: `left join`, `union`, `aggregate`."""
    if step["op"] == "join":
        return f"{step.get('how') or 'inner'} join"
    if step["op"] in ("project", "union") and step.get("distinct"):
        return f"{step['op']} distinct"
    if step["op"] in ("intersect", "difference") and step.get("distinct") is False:
        return f"{step['op']} all"
    return str(step["op"])


def describe_step(step: StepJson) -> str:
    """The operator and its arguments: `aggregate by city: revenue = sum(amount)`."""
    detail = _detail(step)
    return f"{operator_of(step)} {detail}" if detail else operator_of(step)


def _detail(step: StepJson) -> str:
    match step["op"]:
        case "filter":
            return f"where {step['where']}"
        case "project" | "with_columns":
            return _columns(step["columns"])
        case "aggregate":
            by = f"by {_columns(step['by'])}" if step.get("by") else "of everything"
            measures = f": {_columns(step['measures'])}" if step.get("measures") else ""
            having = f", having {step['having']}" if step.get("having") else ""
            return f"{by}{measures}{having}"
        case "join":
            if step.get("using"):
                return f"using {', '.join(step['using'])}"
            return f"on {step['on']}" if step.get("on") else ""
        case "window":
            by = f"by {', '.join(step['partition_by'])}" if step.get("partition_by") else "over everything"
            order = f" ordered by {_join_terms(step['order_by'])}" if step.get("order_by") else ""
            frame = f" {step['frame']}" if step.get("frame") else ""
            return f"{by}{order}{frame}: {_columns(step['measures'])}"
        case "sort":
            return f"by {_join_terms(step['by'])}"
        case "limit":
            return f"{step['n']} by {_join_terms(step['by'])}" if step.get("by") else str(step["n"])
        case "explode":
            outer = ", also where it is empty" if step.get("outer") else ""
            return f"{step['column']} as {step.get('as') or step['column']}{outer}"
        case "sql":
            return " ".join(str(step.get("query") or step.get("file")).split())
        case "pyspark":
            return f"of {', '.join(step['files'])}" if step.get("files") else ""
        case "distinct" | "union" | "intersect" | "difference":
            return ""  # its inputs say all
        case _:
            return ""  # a step that another version wrote


def _columns(columns: Mapping[str, str] | Sequence[str]) -> str:
    if isinstance(columns, Mapping):
        return ", ".join(name if name == text else f"{name} = {text}" for name, text in columns.items())
    return ", ".join(columns)


def _join_terms(terms: str | Sequence[str]) -> str:
    return terms if isinstance(terms, str) else ", ".join(terms)
