"""Polynomials of the oracle: N[X] multiplied out, as the provenance-semiring literature has them. No cleverness.

A polynomial is a dict: monomial (a sorted tuple of rows, repeated as often as used) -> coefficient. Those that would
grow past MOST are None: nothing is known of them, and nothing is compared.
"""

from collections import Counter
from collections.abc import Iterable

Row = tuple[str, int]
Polynomial = dict[tuple[Row, ...], int] | None

MOST = 3000
ONE: Polynomial = {(): 1}


def variable(source: str, rid: int) -> Polynomial:
    return {((source, rid),): 1}


def plus(terms: Iterable[Polynomial]) -> Polynomial:
    total: Counter = Counter()
    for term in terms:
        if term is None:
            return None
        total.update(term)
    return dict(total) if len(total) <= MOST else None


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    if one is None or other is None or len(one) * len(other) > MOST:
        return None
    total: Counter = Counter()
    for a, m in one.items():
        for b, n in other.items():
            total[tuple(sorted(a + b))] += m * n
    return dict(total)


def without(polynomial: Polynomial, gone: Row) -> Polynomial:
    """What is left of it where a row is 0."""
    return None if polynomial is None else {m: n for m, n in polynomial.items() if gone not in m}


def witnesses(polynomial: Polynomial) -> set[frozenset[Row]] | None:
    """Why: the sets of rows of its monomials."""
    return None if polynomial is None else {frozenset(monomial) for monomial in polynomial}


def count(polynomial: Polynomial) -> int | None:
    return None if polynomial is None else sum(polynomial.values())


def expanded(body: dict) -> Polynomial:
    """A polynomial as the JSON of an answer has it, multiplied out."""
    if "number" in body:
        return {(): body["number"]} if body["number"] else {}
    if "row" in body:
        return variable(*body["row"])
    if "sum" in body:
        return plus(expanded(part) for part in body["sum"])
    total = ONE
    for part in body["product"]:
        total = times(total, expanded(part))
    return total
