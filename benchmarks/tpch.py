"""What does capture cost for real queries? TPC-H Q1, Q3, Q10, Q12 without ORDER BY and LIMIT, at scale factor 1."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Query, workflow
from benchmarks.data import tpch_folder

SHIPPED = "l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY"
QUARTER = "o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1993-10-01' + INTERVAL '3' MONTH"
LATE = (
    "l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
    "AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR"
)
PRICE = "l_extendedprice * (1 - l_discount)"
URGENT = "o_orderpriority IN ('1-URGENT', '2-HIGH')"
CUSTOMER = ("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment")

QUERIES = {
    "Q1": Query(
        ("lineitem",),
        f"FROM {{lineitem}} WHERE {SHIPPED}",
        "l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price, "
        f"sum({PRICE}) AS sum_disc_price, sum({PRICE} * (1 + l_tax)) AS sum_charge, avg(l_quantity) AS avg_qty, "
        "avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order",
        ("l_returnflag", "l_linestatus"),
    ),
    "Q3": Query(
        ("customer", "orders", "lineitem"),
        "FROM {customer}, {orders}, {lineitem} WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey "
        "AND l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
        f"l_orderkey, sum({PRICE}) AS revenue, o_orderdate, o_shippriority",
        ("l_orderkey", "o_orderdate", "o_shippriority"),
    ),
    "Q10": Query(
        ("customer", "orders", "lineitem", "nation"),
        "FROM {customer}, {orders}, {lineitem}, {nation} WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey "
        f"AND {QUARTER} AND l_returnflag = 'R' AND c_nationkey = n_nationkey",
        f"c_custkey, c_name, sum({PRICE}) AS revenue, c_acctbal, n_name, c_address, c_phone, c_comment",
        CUSTOMER,
    ),
    "Q12": Query(
        ("orders", "lineitem"),
        f"FROM {{orders}}, {{lineitem}} WHERE o_orderkey = l_orderkey AND {LATE}",
        f"l_shipmode, sum(CASE WHEN {URGENT} THEN 1 ELSE 0 END) AS high_line_count, "
        f"sum(CASE WHEN NOT {URGENT} THEN 1 ELSE 0 END) AS low_line_count",
        ("l_shipmode",),
    ),
}

# The same in steps, of which the last is the output.
STEPS = {
    "Q1": (
        f'{{name: shipped, op: filter, input: lineitem, where: "{SHIPPED}"}}',
        "{name: summary, op: aggregate, input: shipped, by: [l_returnflag, l_linestatus], measures: "
        "{sum_qty: sum(l_quantity), sum_base_price: sum(l_extendedprice), "
        f"sum_disc_price: sum({PRICE}), sum_charge: sum({PRICE} * (1 + l_tax)), "
        "avg_qty: avg(l_quantity), avg_price: avg(l_extendedprice), avg_disc: avg(l_discount), "
        "count_order: count(*)}}",
    ),
    "Q3": (
        "{name: segment, op: filter, input: customer, where: \"c_mktsegment = 'BUILDING'\"}",
        "{name: earlier, op: filter, input: orders, where: \"o_orderdate < DATE '1995-03-15'\"}",
        "{name: later, op: filter, input: lineitem, where: \"l_shipdate > DATE '1995-03-15'\"}",
        "{name: theirs, op: join, left: segment, right: earlier, on: c_custkey = o_custkey}",
        "{name: lines, op: join, left: theirs, right: later, on: l_orderkey = o_orderkey}",
        "{name: revenues, op: aggregate, input: lines, by: [l_orderkey, o_orderdate, o_shippriority], "
        f"measures: {{revenue: sum({PRICE})}}}}",
        "{name: summary, op: project, input: revenues, columns: [l_orderkey, revenue, o_orderdate, o_shippriority]}",
    ),
    "Q10": (
        f'{{name: quarter, op: filter, input: orders, where: "{QUARTER}"}}',
        "{name: returned, op: filter, input: lineitem, where: \"l_returnflag = 'R'\"}",
        "{name: theirs, op: join, left: customer, right: quarter, on: c_custkey = o_custkey}",
        "{name: lines, op: join, left: theirs, right: returned, on: l_orderkey = o_orderkey}",
        "{name: homes, op: join, left: lines, right: nation, on: c_nationkey = n_nationkey}",
        f"{{name: lost, op: aggregate, input: homes, by: [{', '.join(CUSTOMER)}], "
        f"measures: {{revenue: sum({PRICE})}}}}",
        "{name: summary, op: project, input: lost, "
        "columns: [c_custkey, c_name, revenue, c_acctbal, n_name, c_address, c_phone, c_comment]}",
    ),
    "Q12": (
        f'{{name: late, op: filter, input: lineitem, where: "{LATE}"}}',
        "{name: lines, op: join, left: orders, right: late, on: o_orderkey = l_orderkey}",
        "{name: summary, op: aggregate, input: lines, by: [l_shipmode], measures: "
        f'{{high_line_count: "sum(CASE WHEN {URGENT} THEN 1 ELSE 0 END)", '
        f'low_line_count: "sum(CASE WHEN NOT {URGENT} THEN 1 ELSE 0 END)"}}}}',
    ),
}


def cases(data: Path, scale: float) -> list[Case]:
    return [
        Case(
            "tpch",
            name,
            query,
            workflow(name.lower(), query, STEPS[name], "summary"),
            lambda part: tpch_folder(data, scale * part),
        )
        for name, query in QUERIES.items()
    ]
