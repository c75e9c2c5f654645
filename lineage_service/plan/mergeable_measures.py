"""Aggregates that can be merged from partial results, which may be prepared for a declared question."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_service.plan.expressions import Expression

FUNCTIONS = ("sum", "count", "min", "max", "avg")


@dataclass(frozen=True, slots=True)
class MergeableMeasure:
    """An aggregate of one argument (None: of rows) that can be merged from partial results."""

    name: str
    function: str
    argument: str | None
    distinct: bool = False

    @property
    def text(self) -> str:
        inner = "*" if self.argument is None else self.argument
        return f"{self.function}({'DISTINCT ' if self.distinct else ''}{inner})"


class NotMergeable(Exception):
    """An aggregate that cannot be merged from partial results."""


def parse_measure(name: str, text: str) -> MergeableMeasure:
    """A measure of a declared question. Raises NotMergeable if it is no single known aggregate."""
    from sqlglot import exp

    tree = Expression(text).tree
    kinds: dict[type[exp.Expr], str] = {
        exp.Sum: "sum", exp.Count: "count", exp.Min: "min", exp.Max: "max", exp.Avg: "avg",
    }  # fmt: skip
    function = kinds.get(type(tree))
    inside = text.strip()
    opening = inside.find("(")
    if function is None or inside[:opening].strip().lower() != function or not inside.endswith(")"):
        raise NotMergeable
    argument = inside[opening + 1 : -1].strip()
    inner = tree.this
    if function == "count" and isinstance(inner, exp.Star):
        return MergeableMeasure(name, "count", None)
    if function == "count" and isinstance(inner, exp.Literal):
        return MergeableMeasure(name, "count", None)
    distinct = isinstance(inner, exp.Distinct)
    if (distinct and len(inner.expressions) != 1) or not argument:
        raise NotMergeable
    if function in ("min", "max", "count") and tree.expressions:
        raise NotMergeable
    if distinct:
        if function != "count":
            raise NotMergeable
        argument = argument[len("distinct") :].strip()
    return MergeableMeasure(name, function, argument, distinct)
