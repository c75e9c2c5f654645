"""PIVOT and UNPIVOT of the oracle for SQL: a pivot is an aggregate, an unpivot gives rows from one row each."""

from sqlglot import exp

from tests.oracle.reference_expressions import Context, value_of
from tests.oracle.reference_values import Unsupported, canonical
from tests.oracle.sql_rows import Column, Relation, RowScope, SqlRow, Touched, merge_traces


def pivoted(relation: Relation, pivot: exp.Pivot, touched: Touched) -> Relation:
    if len(pivot.args["fields"]) != 1:
        raise Unsupported("PIVOT over several columns")
    (field,) = pivot.args["fields"]
    result = (
        unpivot(relation, pivot, field) if pivot.args.get("unpivot") else pivot_rows(relation, pivot, field, touched)
    )
    alias = pivot.args.get("alias")
    return result.renamed(alias.name) if alias is not None and alias.this is not None else result


def pivot_rows(relation: Relation, pivot: exp.Pivot, field: exp.In, touched: Touched) -> Relation:
    """One row for each group of what is neither compared nor aggregated; every row of the group contributes."""
    if not isinstance(field.this, exp.Column):
        raise Unsupported("PIVOT over several columns")
    names = [column.name.lower() for column in relation.columns]
    read = {column.name.lower() for node in (field.this, *pivot.expressions) for column in node.find_all(exp.Column)}
    kept = [i for i, name in enumerate(names) if name not in read]
    place = names.index(field.this.name.lower())
    values = [value_of(unnamed(each), Context(None)) for each in field.expressions]
    groups: dict = {}
    for row in relation.rows:
        groups.setdefault(canonical([row.values[i] for i in kept]), []).append(row)
    rows = []
    for members in groups.values():
        made = []
        for value in values:
            equal = [row for row in members if canonical(row.values[place]) == canonical(value)]
            scopes = [RowScope(relation.columns, row, None, touched) for row in equal]
            made += [value_of(unnamed(each), Context(None, scopes)) if equal else None for each in pivot.expressions]
        key = tuple(members[0].values[i] for i in kept)
        rows.append(SqlRow((*key, *made), merge_traces(row.trace for row in members)))
    columns = [relation.columns[i] for i in kept]
    for each in field.expressions:
        shown = each.args["alias"].name if isinstance(each, exp.PivotAlias) else each.name
        for aggregate in pivot.expressions:
            if len(pivot.expressions) > 1 and not isinstance(aggregate, exp.Alias):
                raise Unsupported("several aggregates of PIVOT without names")
            columns.append(Column(shown if len(pivot.expressions) == 1 else f"{shown}_{aggregate.alias}"))
    return Relation(columns, rows)


def unpivot(relation: Relation, pivot: exp.Pivot, field: exp.In) -> Relation:
    """A row for each of the columns; without those that are null, unless they are included."""
    names = [column.name.lower() for column in relation.columns]
    places = [names.index(unnamed(each).name.lower()) for each in field.expressions]
    shown = [
        each.args["alias"].name if isinstance(each, exp.PivotAlias) else each.name  # as written, as Spark gives it
        for each in field.expressions
    ]
    kept = [i for i in range(len(names)) if i not in places]
    rows = [
        SqlRow((*(row.values[i] for i in kept), name, row.values[place]), row.trace)
        for row in relation.rows
        for name, place in zip(shown, places, strict=True)
        if row.values[place] is not None or pivot.args.get("include_nulls")
    ]
    (value,) = pivot.expressions
    return Relation([*(relation.columns[i] for i in kept), Column(field.this.name), Column(value.name)], rows)


def unnamed(node: exp.Expression) -> exp.Expression:
    return node.this if isinstance(node, exp.Alias | exp.PivotAlias) else node
