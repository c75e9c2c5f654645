"""The options of `backward --semantics how` that evaluate polynomials."""

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
    """How to evaluate polynomials, and the facts about rows that this needs. `into` None: print them as they are."""

    into: str | None
    without: Mapping[str, list[int] | str]
    cost: Mapping[str, str]
    trust: Mapping[str, str]

    def arguments(self) -> dict[str, Any]:
        """Returns keyword arguments of Home.backward, for the options that were given."""
        given = {"evaluate": self.into, "without": self.without, "cost": self.cost, "trust": self.trust}
        return {name: value for name, value in given.items() if value}

    def check(self, semantics: str) -> None:
        """Raises UsageError for options that contradict each other or have no effect."""
        if self.into is not None and semantics != "how":
            raise click.UsageError("--evaluate evaluates polynomials: it needs --semantics how.")
        for name, into in NEEDED.items():
            if getattr(self, name) and self.into != into:
                raise click.UsageError(f"--{name} needs --evaluate {into}.")
        if self.into == "boolean" and not self.without:
            raise click.UsageError("--evaluate boolean needs --without: the rows to leave out.")

    def columns(self, semantics: str, output: Output) -> list[str] | None:
        """Returns the columns to print: in tables and CSV a polynomial is text, without its tree."""
        plain = semantics == "how" and self.into is None and output.format in ("table", "csv")
        return ["out_rid", "how"] if plain else None


def evaluation_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--evaluate` and the options it needs; passed to the verb as one argument `evaluation`."""

    @click.option(
        "--evaluate",
        type=click.Choice(EVALUATIONS),
        help="With --semantics how. count: number of derivations; boolean: whether the row exists without --without; "
        "min-cost: cost of the cheapest derivation; trust: trust in the best derivation, by its least trusted row.",
    )
    @click.option(
        "--without",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=RIDS|PREDICATE",
        help="Rows to leave out: row ids separated by commas, or DuckDB SQL; repeatable.",
    )
    @click.option(
        "--cost",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=EXPRESSION",
        help="Cost of a row of SOURCE, 0 or more; rows of other sources cost 0. [default: 1 for each row]",
    )
    @click.option(
        "--trust",
        type=Assignment(),
        multiple=True,
        metavar="SOURCE=EXPRESSION",
        help="Trust in a row of SOURCE, 0 to 1; rows of other sources have trust 1.",
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
        function(*args, evaluation=Evaluation(evaluate, rows_left_out(without), dict(cost), dict(trust)), **options)

    return with_evaluation


def rows_left_out(given: Sequence[tuple[str, str]]) -> dict[str, list[int] | str]:
    """Returns row ids or predicates by source; several of one source are combined."""
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
