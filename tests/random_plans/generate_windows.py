"""Random window steps for generate.py: orders with nulls and ties, frames, and measures that read different rows."""

from random import Random

from tests.random_plans.generate_types import LITERALS, SCALARS, family, quoted

DIRECTIONS = ["", "", "", " desc", " desc", " asc nulls last", " desc nulls first"]
ROWS = [
    "UNBOUNDED PRECEDING", "3 PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW",
    "1 FOLLOWING", "2 FOLLOWING", "UNBOUNDED FOLLOWING",
]  # fmt: skip
TIES = ["UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"]
DISTANCES = {  # smaller first; Spark compares the two bounds, so that both are of one type
    "integer": [["1", "2"], ["1", "3"]],
    "DOUBLE": [["0.25D", "1D"]],
    "DATE": [
        ["INTERVAL 1 DAY", "INTERVAL 59 DAYS"],
        ["INTERVAL '1' MONTH", "INTERVAL '2' MONTH"],
        ["1", "60"],
    ],
}


def random_window(random: Random, columns: dict[str, str], new_column) -> dict:
    """The fields of a window step over these columns, but for its name and its input."""
    step: dict = {"partition_by": random.sample(list(columns), min(len(columns), random.choice([0, 0, 1, 1, 1, 2])))}
    names = order_names(random, columns)
    if names:
        step["order_by"] = [order_expression(random, name, columns[name]) for name in names]
    frame = random_frame(random, family(columns[names[0]]) if len(names) == 1 else None, bool(names))
    functions = framed(random, columns) + (neighbours(random, columns) + ranks(random) if names else [])
    step["measures"] = {new_column(): text for text in random.sample(functions, min(len(functions), number(random)))}
    if frame:
        step["frame"] = frame
    return step


def number(random: Random) -> int:
    return random.choice([1, 2, 2, 3])


def order_names(random: Random, columns: dict[str, str]) -> list[str]:
    """None, one for RANGE, some, or all, so that there are few ties; of doubles one at most, as the last: Spark's sort
    puts -0.0 before 0.0, though they are equal, and would go on to the next expression only by chance."""
    plain = [name for name, kind in columns.items() if family(kind) in SCALARS - {"DOUBLE"}]
    doubles = [name for name, kind in columns.items() if kind == "DOUBLE"]
    random.shuffle(plain)
    match random.choices(["none", "one", "some", "all"], [2, 4, 2, 5])[0]:
        case "none":
            return []
        case "one":
            return random.sample(plain + doubles[:1], 1) if plain or doubles else []
        case "some":
            return plain[:2]
    return plain + (doubles[:1] if random.random() < 0.5 else [])


def order_expression(random: Random, name: str, kind: str) -> str:
    text = quoted(name)
    if family(kind) == "integer" and random.random() < 0.1:
        text = random.choice(["{} % 2", "abs({} - 2)"]).format(text)
    return text + random.choice(DIRECTIONS)


def random_frame(random: Random, kind: str | None, is_ordered: bool) -> str | None:
    """A frame, or none; `kind` of the order, where that is one expression."""
    if random.random() < 0.3:
        return None
    whole = "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    if not is_ordered:
        return f"{random.choice(['ROWS', 'RANGE'])} {whole}"
    if random.random() < 0.1:
        return random.choice(["ROWS 2 PRECEDING", "rows unbounded preceding", "range current row"])
    unit, bounds = "ROWS", ROWS
    if random.random() < (0.75 if kind in DISTANCES else 0.3):
        unit, bounds = "RANGE", TIES
        if kind in DISTANCES and random.random() < 0.8:
            near, far = random.choice(DISTANCES[kind])
            before, behind = [f"{far} PRECEDING", f"{near} PRECEDING"], [f"{near} FOLLOWING", f"{far} FOLLOWING"]
            bounds = [TIES[0], *before, TIES[1], *behind, TIES[2]]
    start = random.randrange(len(bounds) - 1)
    end = random.randrange(max(start, 1), len(bounds))
    return f"{unit} BETWEEN {bounds[start]} AND {bounds[end]}"


def framed(random: Random, columns: dict[str, str]) -> list[str]:
    functions = ["count(*)"]
    for name, kind in columns.items():
        column = quoted(name)
        functions.append(f"count({column})")
        functions.append(random.choice([f"first_value({column})", f"last_value({column})", f"first({column})"]))
        if random.random() < 0.5:
            functions.append(random.choice(["first_value({})", "last_value({})"]).format(column) + " IGNORE NULLS")
        if family(kind) in SCALARS:
            functions.append(random.choice([f"min({column})", f"max({column})"]))
        if family(kind) in ("integer", "DOUBLE"):
            functions += [f"sum({column})"] * 2
        if family(kind) == "integer":
            # Sums of fractions depend on their order; whole numbers do not.
            functions.append(f"cast(avg({column}) * 4 as bigint)")
            functions.append(f"sum({column}) FILTER (WHERE {column} > 1)")
        if kind == "BIGINT":
            functions.append(f"collect_list({column})")
    return functions


def neighbours(random: Random, columns: dict[str, str]) -> list[str]:
    """Functions of values that need an order."""
    functions = []
    for name, kind in columns.items():
        column, nulls = quoted(name), random.choice(["", " IGNORE NULLS"])
        function, distance = random.choice(["lag", "lead"]), random.choice([1, 1, 2, 3, 0, -1])
        functions.append(f"{function}({column}){nulls}")
        functions.append(f"{function}({column}, {distance}){nulls}")
        if family(kind) in SCALARS:
            functions.append(f"{function}({column}, {distance}, {random.choice(LITERALS[family(kind)])}){nulls}")
        functions.append(f"nth_value({column}, {random.choice([1, 2, 2, 3])}){nulls}")
        if family(kind) == "integer":
            functions.append(f"{column} - lag({column}, 2)")
    return functions


def ranks(random: Random) -> list[str]:
    # As whole numbers, for the reason above.
    shares = ["cast(percent_rank() * 100 as int)", "cast(cume_dist() * 100 as int)"]
    return ["rank()", "dense_rank()", "row_number()", "row_number()", f"ntile({random.randint(1, 3)})", *shares]
