"""Comparing what a run answers with what is expected: rows as a bag, each with exactly its lineage."""

import json
from collections import Counter

from tests.oracle.reference import Map, RefRow
from tests.oracle.reference_polynomials import count, expanded, witnesses
from tests.oracle.test_reference_cases import like
from tests.support.harness import Traced, comparable, with_maps


def _key(values, lineage: dict, peers: dict) -> str:
    return repr(
        (
            values,
            sorted((n, sorted(r)) for n, r in lineage.items() if r),
            sorted((n, sorted(r)) for n, r in peers.items() if r),
        )
    )


def _difference(found: list[str], wanted: list[str], ordered: bool) -> str:
    if ordered and found != wanted and Counter(found) == Counter(wanted):
        return f"rows are right but in another order: {found}"
    missing, extra = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    if not missing and not extra:
        return ""
    return f"missing {list(missing)[:3]}; unexpected {list(extra)[:3]}"


def same_as_expected(rows: list[Traced], expected: dict, prefix: str, *, ordered: bool) -> str:
    """'' where the rows are those of a case file; else what differs."""
    found = [_key(comparable(row.values), _stripped(row.lineage, prefix), _stripped(row.peers, prefix)) for row in rows]
    sample = rows[0].values if rows else {}
    wanted = []
    for index, values in enumerate(expected["rows"]):
        if rows and list(values) != list(sample):
            return f"columns are {list(sample)}, not {list(values)}"
        backward, peers = expected["backward"].get(index, {}), expected.get("peers", {}).get(index, {})
        typed = {name: _typed(value, [row.values[name] for row in rows]) for name, value in values.items()}
        wanted.append(_key(comparable(typed), backward, peers))
    return _difference(found, wanted, ordered)


def same_as_oracle(rows: list[Traced], oracle: list[RefRow], *, ordered: bool) -> str:
    """'' where the rows are the oracle's; else what differs."""
    found = [_key(comparable(row.values), row.lineage, row.peers) for row in rows]
    wanted = [_key(comparable(row.values), row.lineage, row.peers) for row in oracle]
    if ordered:
        ranks = {}
        for key, row in zip(wanted, oracle, strict=True):
            ranks.setdefault(key, []).append(row.rank)
        order = [ranks[key].pop(0) for key in found if ranks.get(key)]
        if order != sorted(order):
            return "rows are not in the asked order"
    return _difference(found, wanted, ordered=False)


def same_ways(home, output: str, rows, oracle: list[RefRow]) -> str:
    """'' where the rows (an Arrow table) have the polynomials, witnesses and counts of the oracle; else what differs."""
    how = home.backward(output, all=True, semantics="how").to_pylist()
    why = home.backward(output, all=True, semantics="why").to_pylist()
    counts = home.backward(output, all=True, semantics="how", evaluate="count").to_pylist()
    values = {
        row.pop("_rid"): {name: with_maps(value, rows.schema.field(name).type) for name, value in row.items()}
        for row in rows.to_pylist()
    }
    sets: dict[int, set] = {rid: set() for rid in values}
    for row in why:
        rid = row.pop("out_rid")
        row.pop("witness")
        sets[rid].add(frozenset((name, each) for name, rids in row.items() for each in rids))
    found, wanted = [], []
    known = Counter(_shown(comparable(row.values), row.how) for row in oracle if row.how is None)
    for each, counted in zip(how, counts, strict=True):
        polynomial = expanded(json.loads(each["polynomial"]))
        if polynomial is not None:
            if sets[each["out_rid"]] != witnesses(polynomial):
                return (
                    f"witnesses of row {each['out_rid']} are {sets[each['out_rid']]}, its polynomial is {each['how']}"
                )
            if counted["count"] != count(polynomial):
                return f"row {each['out_rid']} is counted {counted['count']} times, its polynomial is {each['how']}"
        found.append(_shown(comparable(values[each["out_rid"]]), polynomial))
    wanted = [_shown(comparable(row.values), row.how) for row in oracle]
    if known:
        return ""  # too large to be multiplied out
    return _difference(found, wanted, ordered=False)


def _shown(values, polynomial) -> str:
    return repr((values, None if polynomial is None else sorted(polynomial.items())))


def _stripped(lineage: dict, prefix: str) -> dict:
    return {name.removeprefix(prefix): rids for name, rids in lineage.items()}


def _typed(value: object, actual: list) -> object:
    """An expected value, which has no schema, as a value of the type that the answers have."""
    example = next((each for each in actual if each is not None), None)
    if isinstance(example, list) and value is not None:
        inner = [item for each in actual if each for item in each]
        return [_typed(item, inner) for item in value]
    if isinstance(example, dict) and not isinstance(example, Map) and isinstance(value, dict):
        return {name: _typed(item, [each[name] for each in actual if each]) for name, item in value.items()}
    return like(value, example)
