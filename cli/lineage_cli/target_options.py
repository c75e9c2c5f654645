"""The options that `backward` and `forward` share: the datasets to reach, and what to print of their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from lineage_cli.messages import tell
from lineage_cli.options import Output


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The datasets to reach, and whether to print rows, row ids, pairs or counts."""

    to: tuple[str, ...]
    rids: bool
    pairs: bool
    count: bool
    roles: bool
    influence: bool

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of Home's questions."""
        return {
            "to": None if not self.to else self.to[0] if len(self.to) == 1 else list(self.to),
            "rids": self.rids,
            "pairs": self.pairs,
            "count": self.count,
            "roles": self.roles,
            "influence": self.influence,
        }

    def limit(self, output: Output, given: int | None) -> int | None:
        """Returns the limit; None for pairs and counts, which are always complete."""
        return None if self._is_complete else output.limit(given)

    def note_unused_limit(self, given: int | None) -> None:
        """Prints a note if a limit was given that has no effect."""
        if given is not None and self._is_complete:
            from lineage_service.query.row_retrieval import unused_limit_note

            tell(f"note: {unused_limit_note(given, pairs=self.pairs, count=self.count)}")

    @property
    def _is_complete(self) -> bool:
        return self.pairs or self.count or not self.to

    def check(self, columns: Sequence[str] | None, order_by: Sequence[str] | None) -> None:
        """Raises UsageError for options that contradict each other or have no effect."""
        chosen = [f"--{name}" for name in ("rids", "pairs", "count") if getattr(self, name)]
        if len(chosen) > 1:
            raise click.UsageError(f"{' and '.join(chosen)} contradict each other: choose one.")
        if self.roles and not self.pairs:
            raise click.UsageError("--roles adds a column to pairs: it needs --pairs.")
        if columns and chosen:
            raise click.UsageError(f"--columns selects columns of rows: it cannot be combined with {chosen[0]}.")
        if order_by and chosen:
            raise click.UsageError(f"--order-by orders rows: it cannot be combined with {chosen[0]}.")
        if not self.to:
            given = {"--rids": self.rids, "--pairs": self.pairs, "--columns": columns, "--order-by": order_by}
            for option in (name for name, value in given.items() if value):
                raise click.UsageError(f"{option} needs --to: without it, only counts per dataset are printed.")

    def check_semantics(self, semantics: str, order_by: Sequence[str] | None) -> None:
        """Raises UsageError for options that only `which` supports: those about rows and pairs."""
        given = {"--rids": self.rids, "--pairs": self.pairs, "--count": self.count, "--roles": self.roles,
                 "--influence": self.influence, "--order-by": order_by}  # fmt: skip
        for option in (name for name, value in given.items() if value):
            raise click.UsageError(f"{option} cannot be combined with --semantics {semantics}.")


def target_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--to` and the options of what to print; passed to the verb as one argument `target`."""

    @click.option(
        "--to", multiple=True, metavar="DATASET", help="Dataset to reach; repeatable; `all` for every dataset."
    )
    @click.option("--rids", is_flag=True, help="Print only the row ids.")
    @click.option("--pairs", is_flag=True, help="Print the pairs (out_rid, rid) instead of rows; always all of them.")
    @click.option("--count", is_flag=True, help="Print only the number of rows.")
    @click.option("--roles", is_flag=True, help="With --pairs: add a column `role`, own or peer.")
    @click.option("--influence", is_flag=True, help="Include rows that influenced only by the absence of a match.")
    @wraps(function)
    def with_reach(
        *args: Any,
        to: tuple[str, ...],
        rids: bool,
        pairs: bool,
        count: bool,
        roles: bool,
        influence: bool,
        **options: Any,
    ) -> None:
        function(*args, target=TargetOptions(to, rids, pairs, count, roles, influence), **options)

    return with_reach
