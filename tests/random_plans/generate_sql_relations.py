"""What stands in FROM beside tables and derived tables: rows written out, structs, joins in parentheses."""

from dataclasses import replace

from tests.random_plans.generate_sql_parts import LITERALS, Columns, Field


def values_relation(generator, alias: str) -> tuple[str, list[Field]]:
    pick = generator.pick
    rows = ", ".join(f"({pick(1, 2, 3)}, {pick(*LITERALS['str'], 'NULL')})" for _ in range(3))
    fields = [Field(alias, "k", "int"), Field(alias, "s", "str")]
    if generator.chance(0.3):
        return f"VALUES {rows}, (NULL, 'z') AS {alias}(k, s)", fields
    return f"(VALUES {rows}, (NULL, 'z')) AS {alias}(k, s)", fields


def struct_relation(generator, alias: str) -> tuple[str, list[Field]]:
    """A table whose key is the field of a struct; the struct may be called like the table."""
    table = generator.pick("tb", "tc")
    name = generator.pick("st", "st", alias)
    made = generator.pick("struct(k AS f, id AS g)", "named_struct('f', k, 'g', id)")
    text = f"(SELECT {made} AS {name}, id AS n FROM {table}) {alias}"
    fields = [Field(alias, f"{name}.f", "int"), Field(alias, f"{name}.g", "int"), Field(alias, "n", "int")]
    return text, fields


def pivoted_relation(generator, alias: str) -> tuple[str, list[Field]]:
    """A table turned: values of a column as columns, or columns as rows."""
    pick, table = generator.pick, generator.pick("tb", "tc")
    if generator.chance(0.5):
        nulls = pick("", "INCLUDE NULLS ")
        text = f"(SELECT id AS i, k, id AS n FROM {table}) UNPIVOT {nulls}(m FOR s IN (k{pick('', ' AS kk')}, n)) AS {alias}"
        return text, [Field(alias, "i", "int"), Field(alias, "s", "str"), Field(alias, "m", "int")]
    aggregate = pick("sum(n)", "max(n)", "count(n)", "min(n)")
    key = [Field(alias, "e", "bool")] if generator.chance(0.7) else []
    listed = "k, id AS n, id > 4 AS e" if key else "k, id AS n"
    if generator.chance(0.5):
        fields = [*key, Field(alias, "one", "int"), Field(alias, "two", "int")]
        return f"(SELECT {listed} FROM {table}) PIVOT ({aggregate} FOR k IN (1 AS one, 2 two)) AS {alias}", fields
    fields = [*key, *(Field(alias, name, "int") for name in ("one_a", "one_b", "two_a", "two_b"))]
    both = f"{aggregate} AS a, count(*) AS b"
    return f"(SELECT {listed} FROM {table}) PIVOT ({both} FOR k IN (1 AS one, 2 AS two)) AS {alias}", fields


def joined_relation(generator, depth: int, outer, taken: set[str]) -> tuple[str, list[Field]]:
    """A join in parentheses: what is around it sees the relations inside."""
    left, fields = generator.relation(depth + 1, outer, taken)
    right, more = generator.relation(depth + 1, outer, taken)
    how = generator.pick("JOIN", "LEFT JOIN", "RIGHT JOIN")
    text = f"({left} {how} {right} ON {generator.join_condition(Columns(fields), Columns(more))})"
    if generator.chance(0.2) and not {each.name for each in fields} & {each.name for each in more}:
        alias = generator.fresh("r")
        return f"{text} AS {alias}", [replace(each, qualifier=alias) for each in fields + more]
    return text, fields + more


def star_items(generator, columns: Columns) -> tuple[str, list[Field]] | None:
    """A star, perhaps of one relation or without some columns, and what it gives; None where names would repeat."""
    form = generator.random.random()
    fields = columns.fields
    if form < 0.25:
        qualifier = generator.pick(*fields).qualifier
        if qualifier is not None:
            fields = [each for each in fields if each.qualifier == qualifier]
            given = Columns(fields)
            return (f"{qualifier}.*", given.all_fields()) if given.can_be_starred else None
    if not columns.can_be_starred:
        return None
    if form < 0.6 and len(fields) > 1:
        left_out = generator.pick(*fields)
        rest = [each for each in columns.all_fields() if each.name != left_out.name]
        return f"* EXCEPT ({left_out.name})", rest
    if form < 0.7 and "z9" not in {each.name for each in fields}:
        return "*, 1 AS z9", [*columns.all_fields(), Field(None, "z9", "int")]
    return "*", columns.all_fields()
