"""Expressions whose names are hard to tell apart: variables of lambdas, fields of structs, functions without names."""

from tests.random_plans.generate_sql_parts import Columns


def integer_forms(generator, column: str, columns: Columns) -> list[str]:
    """Expressions that give an integer."""
    pick = generator.pick
    other = pick(*columns.of("int")).text
    forms = [
        f"{column} + {pick(1, 2)}",
        f"-{column}",
        f"{column} % 2",
        f"if({column} > 1, {other}, {column})",
        f"nullif({column}, {pick(0, 1)})",
        f"named_struct('k', {column}, 'b', {other}).{pick('k', 'b')}",
        f"struct({column} AS v, 's' AS s).v",
    ]
    arrays = columns.of("arr")
    if arrays:
        array, variable = pick(*arrays).text, pick("x", "k", "id", "e_")  # some are called like columns
        forms += [
            f"size({array})",
            f"size(filter({array}, {variable} -> {variable} > {column}))",
            f"size(transform({array}, ({variable}, i_) -> {variable} + i_ + {column}))",
            f"aggregate({array}, 0, (a_, {variable}) -> a_ + coalesce({variable}, 0))",
        ]
    return forms


def text_forms(generator, column: str) -> list[str]:
    """Expressions that give a text; some have words in them that are names or keywords elsewhere."""
    word = generator.pick("'k'", "'FROM ta'", "'it\\'s'", "'--'")
    return [
        f"concat({column}, {word})",
        f"{column} || 'x'",
        f"upper({column})",
        f"CASE {column} WHEN 'a' THEN 'k' ELSE {column} END",
    ]
