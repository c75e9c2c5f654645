"""Diff against a plain-Python oracle: row changes by key, and the source rows behind each."""

import json
import math
import random
from collections import Counter

import pyarrow as pa
import pytest

from tests.support.made_runs import Made, MadeHome

NAN = float("nan")
ALL = 10**6


@pytest.fixture
def made(tmp_path):
    return MadeHome(tmp_path / "home")


# --- the oracle -----------------------------------------------------------------------------------------------


def plain(value):
    """A value that compares as groups do: NaN equals NaN, -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def content(row, columns=None):
    return tuple(plain(row[name]) for name in columns or sorted(row))


def expected_changes(old, new, key):
    """By key: (kind, the row's position before, after, columns that differ)."""
    before, after = ({content(row, key): rid for rid, row in enumerate(rows)} for rows in (old, new))
    found = {}
    for each in {**before, **after}:
        a, b = before.get(each), after.get(each)
        if a is None or b is None:
            found[each] = ("added" if a is None else "removed", a, b, ())
        else:
            columns = tuple(name for name in old[a] if name not in key and plain(old[a][name]) != plain(new[b][name]))
            if columns:
                found[each] = ("changed", a, b, columns)
    return found


def expected_behind(old, new, behind_old, behind_new, key, same_version=False):
    """Counters of the source rows added (with `existed`), removed (with `exists`), changed; for one change."""
    if same_version:
        added = Counter((rid, True) for rid in behind_new - behind_old)
        removed = Counter((rid, True) for rid in behind_old - behind_new)
        return added, removed, Counter()
    if key is None:
        counts = [Counter(content(rows[rid]) for rid in rids) for rows, rids in ((old, behind_old), (new, behind_new))]
        whole = [Counter(content(row) for row in rows) for rows in (old, new)]
        added, removed = Counter(), Counter()
        for each in {**counts[0], **counts[1]}:
            for copy in range(counts[0][each] + 1, counts[1][each] + 1):
                added[each, copy <= whole[0][each]] += 1
            for copy in range(counts[1][each] + 1, counts[0][each] + 1):
                removed[each, copy <= whole[1][each]] += 1
        return added, removed, Counter()
    ids = [{row[key]: rid for rid, row in enumerate(rows)} for rows in (old, new)]
    added, removed, changed = Counter(), Counter(), Counter()
    mine = [{rows[rid][key]: rid for rid in rids} for rows, rids in ((old, behind_old), (new, behind_new))]
    for each in {**mine[0], **mine[1]}:
        if each not in mine[0]:
            added[mine[1][each], each in ids[0]] += 1
        elif each not in mine[1]:
            removed[mine[0][each], each in ids[1]] += 1
        elif content(old[mine[0][each]]) != content(new[mine[1][each]]):
            changed[mine[0][each], mine[1][each]] += 1
    return added, removed, changed


def given_behind(behind, key):
    """The same of an answer."""

    def named(row):
        return row["_rid"] if key else content({name: value for name, value in row.items() if name != "_rid"})

    added = Counter((named(row.after), row.known) for row in behind.rows if row.change == "added")
    removed = Counter((named(row.before), row.known) for row in behind.rows if row.change == "removed")
    changed = Counter((row.before["_rid"], row.after["_rid"]) for row in behind.rows if row.change == "changed")
    return added, removed, changed


def judge(diff, outs, key, lineage, sources):
    """Compares an answer with the oracle. `lineage` and `sources`: by source, of both runs; keys: `sources[n][2]`."""
    expected = expected_changes(*outs, key)
    given = {
        content(each.key, key): (each.change, each.rid_before, each.rid_after, each.columns) for each in diff.changes()
    }
    assert given == expected
    kinds_of = Counter(kind for kind, *_ in expected.values())
    same = len(outs[1]) - kinds_of["added"] - kinds_of["changed"]
    assert diff.counts.to_json() == {**{k: kinds_of[k] for k in ("added", "removed", "changed")}, "same": same}
    for change in diff.changes():
        by_source = {each.source.source.partition(".")[2]: each for each in change.behind}
        for name, (old, new, source_key, same_version) in sources.items():
            behind = [
                lineage[name][side].get(rid, set()) if rid is not None else set()
                for side, rid in enumerate((change.rid_before, change.rid_after))
            ]
            if not behind[0] and not behind[1]:
                assert name not in by_source
                continue
            wanted = expected_behind(old, new, *behind, source_key, same_version)
            found = by_source[name]
            assert given_behind(found, source_key or same_version) == wanted, (name, change.key)
            sums = [counter.total() for counter in wanted]
            counts = found.counts
            assert [counts.added, counts.removed, counts.changed] == sums
            assert counts.new == sum(n for (_, known), n in wanted[0].items() if not known)
            assert counts.gone == sum(n for (_, known), n in wanted[1].items() if not known)
            assert counts.added + counts.changed + counts.same == len(behind[1]) == found.contributing[1]
            assert counts.removed + counts.changed + counts.same == len(behind[0]) == found.contributing[0]


# --- random versions, made by hand ----------------------------------------------------------------------------

GROUPS = (None, "a", "b", "c", "d", "e")
VALUES = (None, 0.0, -0.0, 1.0, 2.5, NAN)
ITEM = pa.schema([("id", pa.int64()), ("grp", pa.string()), ("x", pa.float64())])
TOTAL = pa.schema([("grp", pa.string()), ("largest", pa.float64()), ("n", pa.int64())])


def some_items(rng, earlier):
    """Items like the earlier ones: some gone, some changed, some new, in another order."""
    items = [dict(each) for each in earlier if rng.random() < 0.8]
    for each in items:
        if rng.random() < 0.2:
            each["x"] = rng.choice(VALUES)
        if rng.random() < 0.1:
            each["grp"] = rng.choice(GROUPS)
    first = max((each["id"] for each in earlier), default=0) + 1
    items += [{"id": first + n, "grp": rng.choice(GROUPS), "x": rng.choice(VALUES)} for n in range(rng.randrange(6))]
    rng.shuffle(items)
    return items


def totals_of(items, least, with_id):
    """The largest x and the number per group, of items with at least that id; and the items behind each row."""
    groups = {}
    for rid, item in enumerate(items):
        if item["id"] >= least:
            groups.setdefault(item["grp"], []).append(rid)
    rows, lineage = [], {}
    for number, (grp, rids) in enumerate(groups.items()):
        values = [items[rid]["x"] for rid in rids if items[rid]["x"] is not None]
        largest = NAN if any(map(math.isnan, values)) else max(values, default=None)
        rows.append({"grp": grp, "largest": largest, "n": len(rids)})
        lineage[number] = set(rids)
    shown = items if with_id else [{"grp": each["grp"], "x": each["x"]} for each in items]
    return rows, lineage, shown


@pytest.mark.long
@pytest.mark.parametrize("seed", range(16))
def test_random_versions_against_the_oracle(made, seed):
    rng = random.Random(seed)
    with_id, same_version = seed % 3 != 0, seed % 4 == 3
    schema = ITEM if with_id else pa.schema([ITEM.field("grp"), ITEM.field("x")])
    old_items = some_items(rng, some_items(rng, some_items(rng, some_items(rng, []))))
    new_items = old_items if same_version else some_items(rng, old_items)
    version, results = None, []
    for items in (old_items, new_items):
        rows, lineage, shown = totals_of(items, rng.randrange(5), with_id)
        source = Made(version or pa.Table.from_pylist(shown, schema), "source")
        pairs = [(out, rid) for out, rids in lineage.items() for rid in rids]
        out = Made(pa.Table.from_pylist(rows, TOTAL), hops={"items": pairs})
        run = made.run("flow", {"items": source, "out": out})
        version = made.versions[run, "items"] if same_version else None
        results.append((rows, lineage, shown))
    diff = made.home.diff("out", key="grp", rows=ALL)
    (old, old_lineage, old_source), (new, new_lineage, new_source) = results
    identity = "rid" if same_version else "key" if with_id else "content"
    assert [each.identity for each in diff.sources] == ([identity] if diff.counts.any else [])
    judge(
        diff,
        (old, new),
        ["grp"],
        {"items": (old_lineage, new_lineage)},
        {"items": (old_source, new_source, "id" if identity == "key" else None, same_version)},
    )


# --- real runs ------------------------------------------------------------------------------------------------


SHOP = """
version: 1
name: shop
vars: {least: "0"}
sources:
  customers: {path: data/customers.csv, schema: "customer BIGINT, city STRING"}
  items: {path: data/items.json, schema: "customer BIGINT, product STRING, amount BIGINT"}
steps:
  - {name: large, op: filter, input: items, where: "amount >= ${least}"}
  - {name: bought, op: join, left: large, right: customers, using: [customer]}
  - {name: totals, op: aggregate, input: bought, by: [city], measures: {total: sum(amount), n: count(*)}}
  - {name: silent, op: join, how: anti, left: customers, right: items, using: [customer]}
outputs: {totals: , silent: }
"""


def write_shop(folder, customers, items):
    (folder / "data").mkdir(exist_ok=True)
    text = "customer,city\n" + "".join(f"{each['customer']},{each['city']}\n" for each in customers)
    (folder / "data" / "customers.csv").write_text(text)
    (folder / "data" / "items.json").write_text("".join(json.dumps(each) + "\n" for each in items))


def shop_totals(customers, items, least):
    city = {each["customer"]: (rid, each["city"]) for rid, each in enumerate(customers)}
    rows, lineage = {}, {}
    for rid, item in enumerate(items):
        if item["amount"] >= least and item["customer"] in city:
            place, name = city[item["customer"]]
            row = rows.setdefault(name, {"city": name, "total": 0, "n": 0})
            row["total"] += item["amount"]
            row["n"] += 1
            behind = lineage.setdefault(name, {"items": set(), "customers": set()})
            behind["items"].add(rid)
            behind["customers"].add(place)
    return rows, lineage


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    """Three runs of one workflow, the last two over the same files; and what the oracle knows of each."""
    from lineage_service import Home

    rng, folder = random.Random(7), tmp_path_factory.mktemp("shop")
    file = folder / "shop.yml"
    file.write_text(SHOP.replace("data/customers.csv,", "data/customers.csv, options: {header: true},"))
    home = Home.open(folder / "home")
    customers = [{"customer": n, "city": rng.choice("ABCDE")} for n in range(9)]
    items = [
        {"customer": rng.randrange(7), "product": rng.choice("xyz"), "amount": rng.randrange(4)} for _ in range(25)
    ]
    runs = []
    for number in range(3):
        if number == 1:
            customers = [{**each, "city": rng.choice("ABCDEF")} if rng.random() < 0.2 else each for each in customers]
            items = [each for each in items if rng.random() < 0.85]
            items += [
                {"customer": 7, "product": "x", "amount": 2},
                {"customer": 3, "product": "z", "amount": 1},
            ]
        write_shop(folder, customers, items)
        least = 2 if number == 2 else 0
        report = home.run(file, vars={"least": str(least)})
        runs.append((report.run_id, customers, items, *shop_totals(customers, items, least)))
    yield home, runs
    home.close()


@pytest.mark.parametrize(("early", "late"), [(0, 1), (1, 2), (0, 2), (2, 0)])
def test_real_runs_against_the_oracle(shop, early, late):
    home, runs = shop
    (old_run, old_customers, old_items, *old), (new_run, new_customers, new_items, *new) = runs[early], runs[late]
    diff = home.diff(f"totals@{old_run}", f"totals@{new_run}", rows=ALL)
    assert (diff.key, diff.key_inferred, diff.dataset) == (("city",), True, "shop.totals")
    outs, lineage = [], {"customers": [], "items": []}
    for run, (rows, behind) in ((old_run, old), (new_run, new)):
        cities = [row["city"] for row in home.rows(f"totals@{run}").to_pylist()]
        outs.append([rows[city] for city in cities])
        for source, found in lineage.items():
            found.append({rid: behind[city][source] for rid, city in enumerate(cities)})
    same = {early, late} == {1, 2}
    sources = {
        "customers": (old_customers, new_customers, "customer", same),
        "items": (old_items, new_items, None, same),
    }
    judge(diff, outs, ["city"], lineage, sources)
    assert diff.counts.any
    least = ["0", "0", "2"]
    moved = least[early] != least[late]
    assert dict(diff.variables_changed) == ({"least": (least[early], least[late])} if moved else {})
    assert diff.workflows_changed == ()


def test_an_anti_join_influences_by_absence(shop):
    home, runs = shop
    diff = home.diff(f"silent@{runs[0][0]}", f"silent@{runs[1][0]}")
    added = [each for each in diff.changes() if each.change == "removed"]
    assert [each.key for each in added] == [{"customer": 7}]  # it has items now
    own, items = added[0].behind
    assert (own.source.source, own.absent, own.counts.removed, own.counts.gone) == ("shop.customers", False, 1, 0)
    assert (items.source.source, items.absent, items.rows) == ("shop.items", True, ())
    counts = [Counter(content(item) for item in runs[n][2]) for n in (0, 1)]
    assert items.counts.added == (counts[1] - counts[0]).total() > 0
    assert items.counts.removed == (counts[0] - counts[1]).total() > 0
    assert "absence" in json.dumps(diff.to_json()["changes"][0]["behind"])
