"""The steps of a workflow file as a DataFrame program that gives the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from lineage_service.plan.expressions import Expression, quote_identifier, sort_key
from lineage_service.plan.window_calls import add_over_clauses
from tests.support.connect_frames import sql_frame

Columns = Sequence[str]


class StepProgram:
    """Data frames of the steps, by name. `columns` are the columns of the tables, and then of the steps."""

    def __init__(self, session: Any, columns: Mapping[str, Columns]) -> None:
        from pyspark.sql.connect import functions

        self.session, self.F = session, functions
        self.columns: dict[str, list[str]] = {name: list(each) for name, each in columns.items()}
        self.frames = {name: session.table(name) for name in columns}

    def run(self, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        waiting = list(steps)
        while waiting:
            step = next(each for each in waiting if set(inputs_of(each)) <= set(self.frames))
            waiting.remove(step)
            frame, columns = getattr(self, f"_{step['op']}")(step)
            self.frames[step["name"]], self.columns[step["name"]] = frame, columns
        return self.frames

    def expr(self, text: Any) -> Any:
        return self.F.expr(written(text))

    def col(self, name: str, side: str | None = None) -> Any:
        quoted = quote_identifier(name)
        return self.F.col(quoted if side is None else f"{side}.{quoted}")

    def named(self, given: Any) -> dict[str, Any]:
        if isinstance(given, Mapping):
            return {name: self.expr(text) for name, text in given.items()}
        return {name: self.col(name) for name in given or ()}

    def _filter(self, step: Any) -> Any:
        return self.frames[step["input"]].where(written(step["where"])), self.columns[step["input"]]

    def _project(self, step: Any) -> Any:
        columns = self.named(step["columns"])
        frame = self.frames[step["input"]].select(*[each.alias(name) for name, each in columns.items()])
        return (frame.distinct() if step.get("distinct") else frame), list(columns)

    def _with_columns(self, step: Any) -> Any:
        new = self.named(step["columns"])
        old = self.columns[step["input"]]
        replaced = {name.lower(): name for name in new}
        columns = [replaced.get(name.lower(), name) for name in old]
        columns += [name for name in new if name.lower() not in {each.lower() for each in old}]
        return self.frames[step["input"]].withColumns(new), columns

    def _aggregate(self, step: Any) -> Any:
        keys, measures = self.named(step.get("by")), self.named(step.get("measures"))
        below = self.frames[step["input"]]
        by = [each.alias(name) for name, each in keys.items()]
        made = [each.alias(name) for name, each in measures.items()]
        frame = below.groupBy(*by).agg(*made) if made else below.select(*by).distinct()
        if step.get("having") is not None:
            frame = frame.where(written(step["having"]))
        return frame, [*keys, *measures]

    def _distinct(self, step: Any) -> Any:
        return self.frames[step["input"]].distinct(), self.columns[step["input"]]

    def _join(self, step: Any) -> Any:
        how, using = step.get("how", "inner"), list(step.get("using") or ())
        left, right = self.frames[step["left"]].alias("left"), self.frames[step["right"]].alias("right")
        own, other = self.columns[step["left"]], self.columns[step["right"]]
        if using:
            frame = left.join(right, using, how)
        elif how == "cross":
            frame = left.crossJoin(right)
        else:
            frame = left.join(right, self.expr(step["on"]), how)
        shared = {name.lower() for name in using}
        first = [next(each for each in own if each.lower() == name.lower()) for name in using]
        if how in ("semi", "anti"):
            return frame, [*first, *(name for name in own if name.lower() not in shared)]
        both = {name.lower() for name in own} & {name.lower() for name in other}
        rest = [("left", each) for each in own if each.lower() not in both | shared]
        rest += [("right", each) for each in other if each.lower() not in both | shared]
        chosen = [self.col(name) for name in first] + [self.col(name, side) for side, name in rest]
        return frame.select(*chosen), [*first, *(name for _, name in rest)]

    def _union(self, step: Any) -> Any:
        frame = reduce(lambda one, other: one.unionByName(other), [self.frames[name] for name in step["inputs"]])
        return (frame.distinct() if step.get("distinct") else frame), self.columns[step["inputs"][0]]

    def _sides(self, step: Any) -> Any:
        columns = self.columns[step["left"]]
        right = self.frames[step["right"]].select(*map(self.col, columns))
        return self.frames[step["left"]], right, columns

    def _intersect(self, step: Any) -> Any:
        left, right, columns = self._sides(step)
        return (left.intersectAll(right) if step.get("distinct") is False else left.intersect(right)), columns

    def _difference(self, step: Any) -> Any:
        left, right, columns = self._sides(step)
        return (left.exceptAll(right) if step.get("distinct") is False else left.subtract(right)), columns

    def _window(self, step: Any) -> Any:
        by = ", ".join(map(quote_identifier, step.get("partition_by") or ()))
        order = ", ".join(map(written, as_list(step.get("order_by"))))
        window = " ".join(
            part for part in (f"PARTITION BY {by}" if by else "", f"ORDER BY {order}" if order else "") if part
        )
        frame = step.get("frame") or ""
        texts = {
            name: add_over_clauses(Expression(written(text)), window, frame) for name, text in step["measures"].items()
        }
        below = self.columns[step["input"]]
        columns = [*below, *(name for name in texts if name.lower() not in {each.lower() for each in below})]
        return self.frames[step["input"]].withColumns({name: self.expr(text) for name, text in texts.items()}), columns

    def _order(self, by: Any) -> list[Any]:
        found = []
        for text in as_list(by):
            key = sort_key(written(text), None)
            column = self.F.expr(key.expression.text)
            direction = "desc" if key.descending else "asc"
            found.append(getattr(column, f"{direction}_nulls_{'first' if key.nulls_first else 'last'}")())
        return found

    def _sort(self, step: Any) -> Any:
        return self.frames[step["input"]].orderBy(*self._order(step["by"])), self.columns[step["input"]]

    def _limit(self, step: Any) -> Any:
        frame = self.frames[step["input"]]
        frame = frame.orderBy(*self._order(step["by"])) if step.get("by") else frame
        return frame.limit(int(step["n"])), self.columns[step["input"]]

    def _explode(self, step: Any) -> Any:
        alias = step.get("as") or step["column"]
        made = (self.F.explode_outer if step.get("outer") else self.F.explode)(self.col(step["column"]))
        below = self.columns[step["input"]]
        columns = below if alias.lower() in {each.lower() for each in below} else [*below, alias]
        return self.frames[step["input"]].withColumn(alias, made), columns

    def _sql(self, step: Any) -> Any:
        return sql_frame(self.session, step["query"]), None


def inputs_of(step: Mapping[str, Any]) -> list[str]:
    """The steps and tables that a step reads."""
    values = [step[key] for key in ("input", "left", "right", "inputs") if key in step]
    return [name for value in values for name in as_list(value)]


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def written(value: Any) -> str:
    """A scalar of a file as the text that it was."""
    return str(value).lower() if isinstance(value, bool) else str(value)
