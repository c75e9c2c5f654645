"""Provenance polynomials over rows: sums of alternative derivations, products of jointly needed rows. Pure values.

Polynomials are factorised and shared: a group that many rows refer to is one value, and nothing is expanded unless its
witnesses are requested. Common factors are factored out, so that a·b + a·c is written a·(b + c).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST_COMPARED = 400  # up to this many terms, the most frequent factor is searched for greedily
FLATTENED = 1000  # a sum of up to this many terms is merged into the enclosing sum; a larger one stays one term
SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class PolynomialTooLarge(Exception):
    """The polynomial has more witnesses, or a longer text, than the limit allows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A variable: a row of a dataset."""

    dataset: str
    rid: int

    def __str__(self) -> str:
        return f"{self.dataset}[{self.rid}]"


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial: a number, a row, a product (factors with exponents) or a sum (terms with coefficients).

    A sum with `always` exists even if all its terms are removed, as an aggregate without keys does. Created by
    `Polynomials`, which interns equal polynomials.
    """

    kind: str
    order: tuple[Any, ...]
    row: Row | None = None
    number: int = 0
    parts: tuple[tuple[Polynomial, int], ...] = ()

    def rows(self) -> set[Row]:
        """The rows that occur in it."""
        return {each.row for each in self._subterms() if each.row is not None}

    def _subterms(self) -> list[Polynomial]:
        seen: dict[int, Polynomial] = {}
        pending = [self]
        while pending:
            each = pending.pop()
            if id(each) not in seen:
                seen[id(each)] = each
                pending += [part for part, _ in each.parts]
        return list(seen.values())

    def evaluate(self, into: Semiring[T], of: Callable[[Row], T]) -> T:
        """The value in a semiring, given a value per row. Shared parts are evaluated once."""
        known: dict[int, T] = {}

        def value(each: Polynomial) -> T:
            if id(each) not in known:
                known[id(each)] = compute_value(each)
            return known[id(each)]

        def compute_value(each: Polynomial) -> T:
            match each.kind:
                case "number":
                    return into.number(each.number)
                case "row":
                    assert each.row is not None
                    return of(each.row)
                case "product":
                    total = into.number(1)
                    for part, exponent in each.parts:
                        for _ in range(exponent):
                            total = into.times(total, value(part))
                    return total
                case "always":
                    inside = value(each.parts[0][0])
                    return inside if into.always is None else into.always
                case _:
                    total = into.number(0)
                    for part, coefficient in each.parts:
                        term = value(part)
                        if coefficient > 1:
                            term = into.times(into.number(coefficient), term)
                        total = into.plus(total, term)
                    return total

        return value(self)

    def witnesses(self, most: int) -> list[frozenset[Row]]:
        """The sets of rows that suffice, one per derivation. Raises PolynomialTooLarge if there are more than
        `most`."""
        known: dict[int, dict[frozenset[Row], None]] = {}

        def product(one: dict[frozenset[Row], None], other: dict[frozenset[Row], None]) -> dict[frozenset[Row], None]:
            _refuse_larger_than(len(one) * len(other), 4 * most)  # sets of both may coincide
            total = {left | right: None for left in one for right in other}
            _refuse_larger_than(len(total), most)
            return total

        def sets(each: Polynomial) -> dict[frozenset[Row], None]:
            if id(each) not in known:
                known[id(each)] = compute_sets(each)
            return known[id(each)]

        def compute_sets(each: Polynomial) -> dict[frozenset[Row], None]:
            nothing: frozenset[Row] = frozenset()
            match each.kind:
                case "number":
                    return {nothing: None} if each.number else {}
                case "row":
                    assert each.row is not None
                    return {frozenset([each.row]): None}
                case "product":
                    total = {nothing: None}
                    for part, exponent in each.parts:
                        own = sets(part)
                        for _ in range(exponent if len(own) > 1 else 1):  # (a + b)² contains a·b too
                            total = product(total, own)
                    return total
                case _:
                    total = {}
                    for part, _ in each.parts:
                        total.update(sets(part))
                        _refuse_larger_than(len(total), most)
                    return total

        return sorted(sets(self), key=lambda rows: sorted((row.dataset, row.rid) for row in rows))

    def text(self, most: int) -> str:
        """The polynomial as text: a[0]·(b[0] + b[1]). Raises PolynomialTooLarge if it is longer than `most`
        characters."""
        sizes: dict[int, int] = {}

        def size(each: Polynomial) -> int:
            if id(each) not in sizes:
                sizes[id(each)] = 8 + (len(str(each.row)) if each.row else 0) + sum(size(p) + 3 for p, _ in each.parts)
            return sizes[id(each)]

        _refuse_larger_than(size(self), most)
        return _text(self)

    def to_json(self) -> dict[str, Any]:
        """{"row": [dataset, rid]} · {"number": n} · {"sum": […]} · {"product": […]}. A coefficient is a number in a
        product; a power is a repeated factor."""
        match self.kind:
            case "number":
                return {"number": self.number}
            case "row":
                assert self.row is not None
                return {"row": [self.row.dataset, self.row.rid]}
            case "product":
                return {"product": [part.to_json() for part, exponent in self.parts for _ in range(exponent)]}
            case "always":
                return self.parts[0][0].to_json()
            case _:
                return {"sum": [_term_json(part, coefficient) for part, coefficient in self.parts]}


def _term_json(part: Polynomial, coefficient: int) -> dict[str, Any]:
    body = part.to_json()
    if coefficient == 1:
        return body
    return {"product": [{"number": coefficient}, *body.get("product", [body])]}


def _refuse_larger_than(size: int, most: int) -> None:
    if size > most:
        raise PolynomialTooLarge


def _text(each: Polynomial) -> str:
    match each.kind:
        case "number":
            return str(each.number)
        case "row":
            return str(each.row)
        case "product":
            return "·".join(
                _parenthesize(part) + (str(exponent).translate(SUPERSCRIPT) if exponent > 1 else "")
                for part, exponent in each.parts
            )
        case "always":
            return _text(each.parts[0][0])
        case _:
            return " + ".join(
                _text(part) if coefficient == 1 else f"{coefficient}·{_parenthesize(part)}"
                for part, coefficient in each.parts
            )


def _parenthesize(each: Polynomial) -> str:
    inner = each.parts[0][0] if each.kind == "always" else each
    return f"({_text(inner)})" if inner.kind == "sum" else _text(inner)


@dataclass(frozen=True)
class Semiring(Generic[T]):
    """A semiring: plus, times, and the value of a number n (one added n times). `always` is the value of a sum that
    exists regardless of its terms; None: the value of its terms."""

    number: Callable[[int], T]
    plus: Callable[[T, T], T]
    times: Callable[[T, T], T]
    always: T | None = None


COUNT: Semiring[int] = Semiring(lambda n: n, lambda a, b: a + b, lambda a, b: a * b)
BOOLEAN: Semiring[bool] = Semiring(lambda n: n > 0, lambda a, b: a or b, lambda a, b: a and b, always=True)
INFINITE = float("inf")
MIN_COST: Semiring[float] = Semiring(lambda n: 0.0 if n else INFINITE, min, lambda a, b: a + b)
TRUST: Semiring[float] = Semiring(lambda n: 1.0 if n else 0.0, max, min)

Terms = dict[Polynomial, int]


@dataclass
class Polynomials:
    """Creates and interns polynomials."""

    _known: dict[tuple[Any, ...], Polynomial] = field(default_factory=dict)
    _sums: dict[tuple[Any, ...], Polynomial] = field(default_factory=dict)

    def number(self, value: int) -> Polynomial:
        return self._intern_leaf("number", (0, "", value, ""), number=value)

    def row(self, dataset: str, rid: int) -> Polynomial:
        return self._intern_leaf("row", (1, dataset, rid, ""), row=Row(dataset, rid))

    def product(self, factors: Iterable[Polynomial]) -> Polynomial:
        powers: Counter[Polynomial] = Counter()
        number = 1
        for factor in factors:
            if factor.kind == "number":
                number *= factor.number
            elif factor.kind == "product":
                powers.update(dict(factor.parts))
            elif factor.kind == "sum" and len(factor.parts) == 1:
                ((part, coefficient),) = factor.parts
                number *= coefficient
                powers.update(dict(part.parts) if part.kind == "product" else {part: 1})
            else:
                powers[factor] += 1
        if number == 0 or not powers:
            return self.number(number)
        parts = tuple(sorted(powers.items(), key=_sort_key))
        whole = parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else self._intern_composite("product", parts)
        return whole if number == 1 else self._intern_composite("sum", ((whole, number),))

    def sum(self, terms: Iterable[Polynomial], *, always: bool = False) -> Polynomial:
        """A sum with common factors factored out. With `always`, it exists without any term and is 1 then."""
        found = self._factor_out(self._flat(terms))
        if not always:
            return found
        if found.kind == "number" and found.number == 0:
            found = self.number(1)
        return self._intern_composite("always", ((found, 1),))

    def _flat(self, terms: Iterable[Polynomial]) -> Terms:
        flat: Terms = {}
        ones = 0
        for term, times in Counter(terms).items():
            if term.kind == "number":
                ones += term.number * times
            elif term.kind == "sum" and (len(term.parts) == 1 or (times == 1 and len(term.parts) <= FLATTENED)):
                for part, coefficient in term.parts:
                    if part.kind == "number":
                        ones += part.number * coefficient * times
                    else:
                        flat[part] = flat.get(part, 0) + coefficient * times
            else:
                flat[term] = flat.get(term, 0) + times
        if ones:
            flat[self.number(ones)] = 1
        return flat

    def _factor_out(self, terms: Terms) -> Polynomial:
        if not terms:
            return self.number(0)
        if len(terms) == 1:
            ((term, coefficient),) = terms.items()
            return self.product([self.number(coefficient), term])
        key = tuple(sorted((term.order, coefficient) for term, coefficient in terms.items()))
        if key not in self._sums:
            self._sums[key] = self._group_by_factor(terms)
        return self._sums[key]

    def _group_by_factor(self, terms: Terms) -> Polynomial:
        """Groups terms that share a factor, then terms that share the remainder: a·c + b·c becomes (a + b)·c."""
        shared = _shared_factors(terms)
        rests: dict[Polynomial, Terms] = {}
        alone: Terms = {}
        for factor, members in shared:
            if factor is None:
                for term, coefficient in members.items():
                    alone[term] = alone.get(term, 0) + coefficient
                continue
            rest = self._factor_out(self._without(members, factor))
            own = rests.setdefault(rest, {})
            own[factor] = own.get(factor, 0) + 1
        if not rests:
            return self._intern_composite("sum", tuple(sorted(alone.items(), key=_sort_key)))
        for rest, factors in rests.items():
            whole = self.product([rest, self._factor_out(factors)])
            for part, coefficient in whole.parts if whole.kind == "sum" and len(whole.parts) == 1 else ((whole, 1),):
                alone[part] = alone.get(part, 0) + coefficient
        if len(alone) == 1:
            ((term, coefficient),) = alone.items()
            return self.product([self.number(coefficient), term])
        return self._intern_composite("sum", tuple(sorted(alone.items(), key=_sort_key)))

    def _without(self, terms: Terms, factor: Polynomial) -> Terms:
        left: Terms = {}
        for term, coefficient in terms.items():
            powers = dict(term.parts) if term.kind == "product" else {term: 1}
            powers[factor] -= 1
            rest = self.product([part for part, exponent in powers.items() for _ in range(exponent)])
            left[rest] = left.get(rest, 0) + coefficient
        ones = left.pop(self.number(1), 0)
        if ones:
            left[self.number(ones)] = 1
        return left

    def _intern_composite(self, kind: str, parts: tuple[tuple[Polynomial, int], ...]) -> Polynomial:
        key = (kind, *((id(part), times) for part, times in parts))
        if key not in self._known:
            digest = hashlib.blake2b(digest_size=12)
            for part, times in parts:
                digest.update(f"{part.order}{times};".encode())
            first = parts[0][0].order if parts else (9, "", 0, "")
            self._known[key] = Polynomial(kind, (2, first[1], first[2], kind + digest.hexdigest()), parts=parts)
        return self._known[key]

    def _intern_leaf(self, kind: str, order: tuple[Any, ...], row: Row | None = None, number: int = 0) -> Polynomial:
        if order not in self._known:
            self._known[order] = Polynomial(kind, order, row, number)
        return self._known[order]


def _sort_key(part: tuple[Polynomial, int]) -> tuple[Any, ...]:
    return part[0].order


def _factors(term: Polynomial) -> Sequence[Polynomial]:
    if term.kind == "number":
        return ()
    return [part for part, _ in term.parts] if term.kind == "product" else [term]


def _shared_factors(terms: Terms) -> list[tuple[Polynomial | None, Terms]]:
    """Groups terms by a shared factor; terms that share none are under None.

    For few terms, the most frequent factor is chosen first, repeatedly. For many terms this takes too long, so the
    factors are those of the dataset with the fewest distinct rows.
    """
    if len(terms) > MOST_COMPARED:
        return _by_dataset(terms)
    found: list[tuple[Polynomial | None, Terms]] = []
    left = dict(terms)
    counted = Counter(factor for term in left for factor in _factors(term))
    while left:
        best = min(counted.items(), key=lambda each: (-each[1], each[0].order), default=None)
        if best is None or best[1] < 2:
            found.append((None, left))
            break
        members = {term: times for term, times in left.items() if best[0] in _factors(term)}
        found.append((best[0], members))
        for term in members:
            del left[term]
            counted.subtract(_factors(term))
        counted = +counted
    return found


def _by_dataset(terms: Mapping[Polynomial, int]) -> list[tuple[Polynomial | None, Terms]]:
    different: dict[str, set[Polynomial]] = {}
    for term in terms:
        for factor in _factors(term):
            different.setdefault(factor.row.dataset if factor.row else "", set()).add(factor)
    least = min(different, key=lambda name: (len(different[name]), name), default=None)
    groups: dict[Polynomial | None, Terms] = {}
    for term, times in terms.items():
        own = [f for f in _factors(term) if (f.row.dataset if f.row else "") == least]
        groups.setdefault(min(own, key=lambda f: f.order) if own else None, {})[term] = times
    alone: Terms = groups.pop(None, {})
    found: list[tuple[Polynomial | None, Terms]] = []
    for shared, members in groups.items():
        if len(members) > 1:
            found.append((shared, members))
        else:
            alone.update(members)
    return [*found, (None, alone)] if alone else found
