"""Programs as people write them: the same files with and without us, and the lineage that Python finds in the data."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineage_service import Home
from tests.programs.running import assert_same_rows, run_with_and_without

PROGRAMS = sorted((Path(__file__).parent / "etl").glob("[a-z]*.py"))
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """All programs, once with us and once without."""
    folder = tmp_path_factory.mktemp("programs")
    report = run_with_and_without(folder, PROGRAMS)
    with Home.open(folder / "home") as home:
        yield folder, home, report


def test_every_write_is_traced(ran):
    _, _, report = ran
    assert [each for each in report["writes"] if not each["traced"]] == []
    assert len(report["writes"]) == 11


@pytest.mark.parametrize("output", ["latest", "dimension", "sessions", "features", "report", "clean", "flat", "years",
                                    "top", "no_items", "no_order"])  # fmt: skip
def test_same_rows_as_without_us(ran, output):
    folder, _, _ = ran
    assert_same_rows(folder, output)


# --- lineage, found in the data by other means --------------------------------------------------------------------


def rows_of(home, dataset):
    return home.rows(dataset, all=True).to_pylist()


def pairs(home, output, source):
    """For each row of an output, the rows of a source behind it."""
    found = home.backward(output, to=source, all=True, pairs=True).to_pylist()
    behind: dict[int, set[int]] = {row["_rid"]: set() for row in rows_of(home, output)}
    for pair in found:
        behind[pair["out_rid"]].add(pair["rid"])
    forward = home.forward(f"every_program_{output}.{source}", to=output, all=True, pairs=True).to_pylist()
    assert {(each["out_rid"], each["rid"]) for each in found} == {(each["out_rid"], each["rid"]) for each in forward}
    return behind


def rids(rows, condition):
    return {row["_rid"] for row in rows if condition(row)}


def test_the_latest_record_is_that_record(ran):
    _, home, _ = ran
    events, latest = rows_of(home, "every_program_latest.events"), rows_of(home, "latest")
    assert len(latest) == 4
    for row in latest:
        own = rids(events, lambda each, row=row: each["event_id"] == row["event_id"])
        assert pairs(home, "latest", "events")[row["_rid"]] == own


def test_a_dimension_has_old_and_new_rows(ran):
    _, home, _ = ran
    customers, updates = (rows_of(home, f"every_program_dimension.{name}") for name in ("customers", "updates"))
    of_customers, of_updates = pairs(home, "dimension", "customers"), pairs(home, "dimension", "updates")
    city = {row["customer_id"]: row["city"] for row in customers}
    new = {row["customer_id"]: row["city"] for row in updates}
    changed = {key for key in city.keys() & new.keys() if (city[key] or "") != (new[key] or "")}
    for row in rows_of(home, "dimension"):
        key = row["customer_id"]
        own = rids(customers, lambda each, key=key: each["customer_id"] == key)
        its = rids(updates, lambda each, key=key: each["customer_id"] == key)
        assert of_customers[row["_rid"]] == own
        assert of_updates[row["_rid"]] == (its if key in changed or key not in city else set())


def test_sessions_have_what_their_windows_read(ran):
    """A running sum has read all events of the user up to the session's last one."""
    _, home, _ = ran
    events, behind = rows_of(home, "every_program_sessions.events"), pairs(home, "sessions", "events")
    for row in rows_of(home, "sessions"):
        assert behind[row["_rid"]] == rids(
            events, lambda each, row=row: each["user_id"] == row["user_id"] and each["ts"] <= row["ended"]
        )


def test_features_have_all_orders_and_items_of_a_customer(ran):
    _, home, _ = ran
    customers, orders, items = (
        rows_of(home, f"every_program_features.{name}") for name in ("customers", "orders", "items")
    )
    behind = {name: pairs(home, "features", name) for name in ("customers", "orders", "items")}
    for row in rows_of(home, "features"):
        key = row["customer_id"]
        bought = {each["order_id"] for each in orders if each["customer_id"] == key}
        assert behind["customers"][row["_rid"]] == rids(customers, lambda each, key=key: each["customer_id"] == key)
        assert behind["orders"][row["_rid"]] == rids(orders, lambda each, key=key: each["customer_id"] == key)
        assert behind["items"][row["_rid"]] == rids(items, lambda each, bought=bought: each["order_id"] in bought)


def test_a_pivot_is_a_group(ran):
    _, home, _ = ran
    customers, orders = (rows_of(home, f"every_program_report.{name}") for name in ("customers", "orders"))
    of_orders = pairs(home, "report", "orders")
    for row in rows_of(home, "report"):
        living = {each["customer_id"] for each in customers if each["city"] == row["city"]}
        assert of_orders[row["_rid"]] == rids(orders, lambda each, living=living: each["customer_id"] in living)


def test_duplicates_that_were_dropped_all_count(ran):
    _, home, _ = ran
    typed, behind = rows_of(home, "every_program_clean.typed"), pairs(home, "clean", "typed")
    for row in rows_of(home, "clean"):
        assert behind[row["_rid"]] == rids(typed, lambda each, row=row: each["customer_id"] == row["customer_id"])


def test_lines_come_from_their_order(ran):
    _, home, _ = ran
    nested, behind = rows_of(home, "every_program_flat.nested"), pairs(home, "flat", "nested")
    assert len(behind) == 3
    for row in rows_of(home, "flat"):
        assert behind[row["_rid"]] == rids(nested, lambda each, row=row: each["id"] == row["id"])


def test_years_keep_their_rows(ran):
    _, home, _ = ran
    for year in (2023, 2024, 2025):
        behind = pairs(home, "years", f"year_{year}")
        assert {len(behind[row["_rid"]]) for row in rows_of(home, "years") if row["year"] == year} == {1}
        assert {len(behind[row["_rid"]]) for row in rows_of(home, "years") if row["year"] != year} == {0}


def test_places_have_read_what_is_ranked_before(ran):
    _, home, _ = ran
    orders, customers = (rows_of(home, f"every_program_top.{name}") for name in ("orders", "customers"))
    city = {row["customer_id"]: row["city"] for row in customers}
    behind = pairs(home, "top", "orders")
    for row in rows_of(home, "top"):
        before = rids(orders, lambda each, row=row: each["customer_id"] in city
                      and city[each["customer_id"]] == row["city"]
                      and (-each["amount"], each["order_id"]) <= (-row["amount"], row["order_id"]))  # fmt: skip
        assert behind[row["_rid"]] == before


def test_what_has_no_partner_is_itself(ran):
    _, home, _ = ran
    orders, behind = rows_of(home, "every_program_no_items.orders"), pairs(home, "no_items", "orders")
    for row in rows_of(home, "no_items"):
        assert behind[row["_rid"]] == rids(orders, lambda each, row=row: each["order_id"] == row["order_id"])
