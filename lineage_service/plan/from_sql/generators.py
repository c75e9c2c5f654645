"""Functions that return several rows: explode, posexplode and inline, in LATERAL VIEW and in the select list.

Each is an Explode of an array: of values, or of structs whose fields become the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_sql.expression_texts import call_name
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.scopes import BoundColumn
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.functions import GENERATORS
from lineage_service.plan.nested_types import constructor, exploded_type, field_names, field_type
from lineage_service.plan.nodes import Explode, NamedExpression, Node, WithColumns

if TYPE_CHECKING:
    from sqlglot import exp

ARRAYS = frozenset(
    {"array", "split", "sequence", "collect_list", "collect_set", "array_agg", "transform", "filter", "map_keys",
     "map_values", "map_entries", "array_distinct", "array_sort", "sort_array", "array_union", "array_except",
     "array_intersect", "array_repeat", "arrays_zip", "flatten", "slice", "shuffle", "array_remove", "array_compact",
     "regexp_extract_all", "array_append", "array_prepend", "sentences"}
)  # fmt: skip
MAPS = frozenset({"map", "map_from_arrays", "map_from_entries", "str_to_map", "map_concat", "map_filter",
                   "transform_keys", "transform_values"})  # fmt: skip


TextOf = Callable[["exp.Expr"], str]
TypeOf = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True)
class Generator:
    """A call of a generator.

    columns: its columns under the names that they have in Spark, and in the plan · fields: what each is of the
    element: None for the element itself · is_map, with_positions: how the elements are made.
    """

    call: exp.Expr
    columns: tuple[BoundColumn, ...]
    fields: tuple[str | None, ...]
    is_map: bool
    is_known: bool
    with_positions: bool
    outer: bool


def is_generator(context: SqlContext, node: exp.Expr) -> bool:
    return call_name(context, node) in GENERATORS


def read_generator(
    context: SqlContext, call: exp.Expr, type_of: TypeOf, text_of: TextOf, names: Sequence[str], *, outer: bool
) -> Generator:
    """What a call gives. `names` are those of an alias list, empty for the names that Spark gives; `type_of` tells the
    type of a column of the plan."""
    name = call_name(context, call) or ""
    kind = name.removesuffix("_outer")
    arguments = list(call.iter_expressions())
    if kind not in ("explode", "posexplode", "inline") or len(arguments) != 1:
        raise refuse(call, f"{name or 'this'}() is not supported as a table function",
                     "use explode(), posexplode() or inline()")  # fmt: skip
    argument = arguments[0]
    type_, is_map = _type_of(context, name, argument, type_of, text_of)
    if kind == "inline":
        fields = field_names(exploded_type(type_)) if type_ is not None else None
        if not fields:
            raise refuse(call, "inline() is supported only for a column whose type is known: an array of structs",
                         "explode() the array, and read the fields of its elements")  # fmt: skip
        made = fields
    else:
        if is_map is None and names:
            is_map = len(names) - (kind == "posexplode") == 2
        elif is_map is None:
            raise refuse(call, f"it is not known whether {name}() has an array or a map, and so what its columns are "
                         "called", "name them: AS (…)")  # fmt: skip
        parts = ["key", "value"] if is_map else ["col"]
        made = ["pos", *parts] if kind == "posexplode" else parts
    if names and len(names) != len(made):
        raise refuse(call, f"{len(names)} names for the {len(made)} columns of {name}()")
    whole = kind == "explode" and not is_map
    columns = [BoundColumn(shown, context.names.fresh("each", shown)) for shown in names or made]
    known = type_ is not None or _root(context, argument) in ARRAYS | MAPS
    return Generator(call, tuple(columns), (None,) if whole else tuple(made), bool(is_map), known,
                     kind == "posexplode", outer or name.endswith("_outer"))  # fmt: skip


def explode_rows(context: SqlContext, generator: Generator, node: Node, text_of: TextOf) -> Node:
    """The rows, one for each element."""
    call = generator.call
    (argument,) = call.iter_expressions()
    text = text_of(argument)
    if context.scalar(text, argument).is_volatile:
        raise refuse(
            argument,
            "a table function of an expression that is not repeatable, such as rand(), is not supported in sql steps",
        )
    if generator.is_map and not generator.with_positions:
        text = f"map_entries({text})"
    elif generator.with_positions:
        values = {"col": "x", "key": "x.key", "value": "x.value"}
        fields = ", ".join(f"'{name}', {values[str(name)]}" for name in generator.fields[1:])
        elements = f"map_entries({text})" if generator.is_map else text
        text = f"transform({elements}, (x, i) -> named_struct('pos', i, {fields}))"
    elif not generator.is_known:
        text = f"filter({text}, x -> true)"  # no map
    listed = context.names.fresh("each", "elements")
    node = context.make(WithColumns, "elements", call, node, (NamedExpression(listed, context.scalar(text, call)),))
    if generator.fields == (None,):
        return context.make(Explode, "explode", call, node, listed, generator.columns[0].internal, generator.outer)
    element = context.names.fresh("each", "element")
    node = context.make(Explode, "explode", call, node, listed, element, generator.outer)
    named = tuple(
        NamedExpression(column.internal, context.scalar(f"{element}.{quote_identifier(str(name))}", call))
        for column, name in zip(generator.columns, generator.fields, strict=True)
    )
    return context.make(WithColumns, "fields", call, node, named)


def _type_of(
    context: SqlContext, name: str, argument: exp.Expr, type_of: TypeOf, text_of: TextOf
) -> tuple[str | None, bool | None]:
    """The type where it is known, and whether it is a map; None where that is not known."""
    from sqlglot import exp

    root = _root(context, argument)
    if root is not None:
        return None, False if root in ARRAYS else True if root in MAPS else None
    if not isinstance(argument, exp.Column | exp.Dot):
        return None, None
    column, *fields = text_of(argument).split(".")
    kind = field_type(type_of(column), fields) if fields else type_of(column)
    made = constructor(kind)
    if kind is not None and made not in ("array", "map"):
        raise refuse(argument, f"{name}() needs an array or a map; this is {kind}", "split(…) makes an array of a text")
    return (kind, made == "map") if made is not None else (None, None)


def _root(context: SqlContext, argument: exp.Expr) -> str | None:
    from sqlglot import exp

    while isinstance(argument, exp.Paren):
        argument = argument.this
    return call_name(context, argument)
