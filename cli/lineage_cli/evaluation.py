"""The options that say what polynomials are evaluated to, for `backward --semantics how`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from lineage_cli.options import Assignment, Output, as_rid

EVALUATIONS = ("count", "boolean", "min-cost", "trust")
NEEDED = {"without": "boolean", "cost": "min-cost", "trust": "trust"}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What to evaluate to, and what that needs to know of rows; nothing is given: polynomials as they are."""

    into: str | None
    without: Mapping[str, list[int] | str]
    cost: Mapping[str, str]
    trust: Mapping[str, str]

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of Home.backward; only what was given."""
        given = {"evaluate": self.into, "without": self.without, "cost": self.cost, "trust": self.trust}
        return {name: value for name, value in given.items() if value}

    def check(self, semantics: str) -> None:
        """Options that contradict each other, or mean nothing as given, are wrong usage."""
        if self.into is not None and semantics != "how":
            raise click.UsageError("--evaluate is about polynomials: it needs --semantics how.")
        for name, into in NEEDED.items():
            if getattr(self, name) and self.into != into:
                raise click.UsageError(f"--{name} needs --evaluate {into}.")
        if self.into == "boolean" and not self.without:
            raise click.UsageError("--evaluate boolean needs --without: the rows that are gone.")

    def columns(self, semantics: str, output: Output) -> list[str] | None:
        """The columns that people want to read: a polynomial as text, without its tree."""
        plain = semantics == "how" and self.into is None and output.format in ("table", "csv")
        return ["out_rid", "how"] if plain else None


def evaluation_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--evaluate` and what goes with it; the verb gets one argument `evaluation`."""

    @click.option(
        "--evaluate",
        type=click.Choice(EVALUATIONS),
        help="With --semantics how. count: ways to make the row; boolean: does it survive --without; min-cost: the "
        "cheapest way; trust: the way whose weakest row is strongest.",
    )
    @click.option(
        "--without",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=RIDS|PREDICATE",
        help="Rows that are gone: row ids apart by commas, or DuckDB SQL; repeatable.",
    )
    @click.option(
        "--cost",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=EXPRESSION",
        help="What a row costs, 0 or more; others cost nothing. [default: 1 for each row]",
    )
    @click.option(
        "--trust",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=EXPRESSION",
        help="How far a row is trusted, 0 to 1; others are trusted fully.",
    )
    @wraps(function)
    def with_evaluation(
        *args: Any,
        evaluate: str | None,
        without: tuple[tuple[str, str], ...],
        cost: tuple[tuple[str, str], ...],
        trust: tuple[tuple[str, str], ...],
        **options: Any,
    ) -> None:
        function(*args, evaluation=Evaluation(evaluate, rows_gone(without), dict(cost), dict(trust)), **options)

    return with_evaluation


def rows_gone(given: Sequence[tuple[str, str]]) -> dict[str, list[int] | str]:
    """Row ids or predicates by source; several of a source are put together."""
    rids: dict[str, list[int]] = {}
    predicates: dict[str, list[str]] = {}
    for source, text in given:
        numbers = [as_rid(part.strip()) for part in text.split(",")]
        if None in numbers:
            predicates.setdefault(source, []).append(text)
        else:
            rids.setdefault(source, []).extend(number for number in numbers if number is not None)
    found: dict[str, list[int] | str] = dict(rids)
    for source, texts in predicates.items():
        listed = [f"_rid IN ({', '.join(map(str, rids[source]))})"] if source in rids else []
        found[source] = " OR ".join([*(f"({text})" for text in texts), *listed])
    return found
