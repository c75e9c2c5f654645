"""GROUP BY of the random queries of generate_sql.py: keys, grouping sets, aggregates, HAVING."""

from tests.random_plans.generate_sql_parts import LITERALS, Columns, Field, Select


def grouped_select(generator, source: str, columns: Columns, outer, depth: int, types: list[str] | None) -> Select:
    """A SELECT with GROUP BY; the columns have these types where they are given."""
    pick, chance = generator.pick, generator.chance
    keys = group_keys(generator, columns)
    use_sets = len(keys) > 0 and not outer and chance(0.3)  # Spark refuses sets in correlated subqueries
    kinds = types or [pick("key", "key", "int", "int", "str", "dbl") for _ in range(pick(1, 2, 3))]
    items: list[tuple[str, str]] = []
    for kind in kinds:
        of_kind = [key for key in keys if kind in ("key", key.kind)]
        if of_kind and (kind == "key" or chance(0.4)):
            key = pick(*of_kind)
            items.append((f"{key.name} + 1" if key.kind == "int" and chance(0.2) else key.name, key.kind))
        elif kind == "key":
            items.append((generator.aggregate("int", columns), "int"))
        else:
            items.append((generator.aggregate(kind, columns), kind))
    if types is None and use_sets and chance(0.7):
        names = ", ".join(key.name for key in keys)
        items.append((pick(f"grouping({keys[0].name})", "grouping_id()", f"grouping_id({names})"), "int"))
    plain_keys = [key for key in keys if key.name.count(".") == 1 and key.name.replace(".", "").isidentifier()]
    group_columns = Columns([Field(*key.name.split("."), key.kind) for key in plain_keys])
    if types is None and depth < 2 and chance(0.12):
        # Spark takes a correlated subquery only inside of an aggregate function.
        inside = chance(0.5)
        scalar = generator.scalar_query("int", (*outer, columns) if inside else (), depth + 1)
        items.append((f"max(({scalar}))" if inside else f"({scalar})", "int"))
    if types is None and depth == 0 and chance(0.15):
        inner = generator.aggregate("int", columns)
        partition = f"PARTITION BY {pick(*keys).name} " if keys and chance(0.3) else ""
        function = pick("rank()", f"sum({inner})", "dense_rank()")
        items.append((f"{function} OVER ({partition}ORDER BY {generator.aggregate('int', columns)})", "int"))
    fields = [Field(None, f"c{i}", kind) for i, (_, kind) in enumerate(items)]
    listed = ", ".join(f"{text} AS {each.name}" for (text, _), each in zip(items, fields, strict=True))
    group = group_clause(generator, keys, [text for text, _ in items], use_sets, {f.name for f in columns.fields})
    if " OVER (" in listed:
        group_columns = Columns([])  # Spark does not find the keys in a subquery of HAVING when there are windows
    having = having_clause(generator, columns, group_columns, outer, depth, use_sets)
    return Select(f"SELECT {listed} FROM {source}{group}{having}", fields)


def group_keys(generator, columns: Columns) -> list[Field]:
    """Keys as fields whose name is the expression."""
    plain = [each for each in columns.fields if each.kind not in ("arr", "bool")]
    keys: list[Field] = []
    for _ in range(generator.pick(0, 1, 1, 2, 2, 3)):
        if not plain:
            break
        column = generator.pick(*plain)
        text = column.text
        if generator.chance(0.2):
            text = f"coalesce({text}, {generator.pick(*LITERALS[column.kind])})"
        if text not in [key.name for key in keys]:
            keys.append(Field(None, text, column.kind))
    return keys


def group_clause(generator, keys: list[Field], items: list[str], use_sets: bool, columns: set[str]) -> str:
    if not keys:
        return ""
    names = [key.name for key in keys]
    if not use_sets:
        entries = []
        for name in names:
            if name in items and generator.chance(0.3):
                place = items.index(name)
                alias = str(place + 1) if f"c{place}" in columns else f"c{place}"  # a column wins over an alias
                entries.append(generator.pick(str(place + 1), alias))
            else:
                entries.append(name)
        is_all = set(names) == {item for item in items if item in names} and generator.chance(0.2)
        return " GROUP BY ALL" if is_all else " GROUP BY " + ", ".join(entries)
    listed = ", ".join(names)
    subsets = ", ".join(f"({', '.join(n for n in names if generator.chance(0.5))})" for _ in range(2))
    forms = [
        f"ROLLUP ({listed})",
        f"CUBE ({listed})",
        f"GROUPING SETS (({listed}), {subsets})",
        f"GROUPING SETS (({listed}), ())",
        f"{listed} WITH ROLLUP",
    ]
    if len(names) > 1:
        forms.append(f"{names[0]}, ROLLUP ({', '.join(names[1:])})")
    return " GROUP BY " + generator.pick(*forms)


def having_clause(generator, columns: Columns, keys: Columns, outer, depth: int, use_sets: bool) -> str:
    if not generator.chance(0.3):
        return ""
    comparison = generator.pick(">", "<=", "<>")
    aggregate = generator.aggregate("int", columns)
    if depth < 2 and generator.chance(0.4) and not use_sets:
        if keys.of("int") and generator.chance(0.5):
            return " HAVING " + generator.subquery_predicate(keys, outer, depth + 1)
        around = (*outer, keys) if keys.fields else ()
        return f" HAVING {aggregate} {comparison} ({generator.scalar_query('int', around, depth + 1)})"
    return f" HAVING {aggregate} {comparison} {generator.pick(0, 1, 2)}"
