"""`smoke-lineage backward`, also called `upstream`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lineage_cli.evaluation_options import Evaluation, evaluation_options
from lineage_cli.options import (
    Count,
    Output,
    Start,
    home_options,
    output_options,
    reveal_option,
    row_options,
    start_options,
    unchanged_option,
)
from lineage_cli.target_options import TargetOptions, target_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("backward")
@click.argument("dataset", metavar="DATASET")
@start_options(required=True)
@target_options
@click.option(
    "--semantics",
    type=click.Choice(("which", "why", "how")),
    default="which",
    show_default=True,
    help="which: the rows; why: the sets of rows that suffice together; how: also how they combine.",
)
@click.option("--top", type=Count(), metavar="N", help="Only the first N rows in the order of --by.")
@click.option(
    "--by",
    metavar="EXPRESSION",
    help="Expression that --top ranks by: DuckDB SQL over the columns; largest first, unless asc.",
)
@evaluation_options
@row_options
@reveal_option
@unchanged_option
@output_options
@home_options
def command(
    dataset: str,
    start: Start,
    target: TargetOptions,
    semantics: str,
    top: int | None,
    by: str | None,
    evaluation: Evaluation,
    limit: int | None,
    columns: list[str] | None,
    order_by: list[str] | None,
    reveal: bool,
    unchanged: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show the rows of a source that contributed to rows of DATASET.

    Without --to, print how many rows of each dataset contributed. If --rid, --key and --where
    are combined, a row must match all of them.

    With --semantics why or how, show which rows of the sources (or of --to) belong together:
    witnesses, or polynomials such as orders[3]·(items[7] + items[8]).

    \b
    Examples:
      smoke-lineage backward totals --key order_id=7 --to lineitem
      smoke-lineage backward totals --all --to orders --pairs --out pairs.parquet
      smoke-lineage backward totals --key order_id=7 --to lineitem --top 10 --by "l_extendedprice * l_quantity"
      smoke-lineage backward totals --rid 0 --semantics how
      smoke-lineage backward totals --all --semantics how --evaluate boolean --without orders=3
    """
    evaluation.check(semantics)
    ranking = _ranking(top, by, target, order_by, limit)
    if ranking and semantics != "which":
        raise click.UsageError("--top needs --semantics which.")
    if semantics == "which":
        target.check(columns, order_by)
    else:
        target.check_semantics(semantics, order_by)
        columns = columns or evaluation.columns(semantics, output)
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home

    def question(opened: Home) -> Answer:
        return opened.backward(
            dataset,
            **start.arguments(),
            **target.arguments(),
            limit=None if ranking else target.limit(output, limit) if semantics == "which" else output.limit(limit),
            columns=columns,
            order_by=order_by,
            semantics=semantics,
            **evaluation.arguments(),
            **ranking,
            reveal=reveal,
            unchanged=unchanged,
        )

    with ask_home(home, catalog, question) as answer:
        write_answer(answer, output, more="--top" if ranking else "--limit")
        if semantics == "which":
            target.note_unused_limit(limit)


def _ranking(
    top: int | None, by: str | None, target: TargetOptions, order_by: list[str] | None, limit: int | None
) -> dict[str, Any]:
    """Returns `--top` and `--by` as keyword arguments; none if neither is given."""
    if top is None and by is None:
        return {}
    if by is None:
        raise click.UsageError("--top needs --by: an expression over the columns of the rows that it ranks.")
    if top is None:
        raise click.UsageError("--by is the order of --top: it needs --top N.")
    if not target.to:
        raise click.UsageError("--top needs --to: without it, only counts per dataset are printed.")
    given = {"--pairs": target.pairs, "--count": target.count, "--order-by": order_by, "--limit": limit is not None}
    for option in (name for name, value in given.items() if value):
        raise click.UsageError(f"--top determines rows, number and order: it cannot be combined with {option}.")
    return {"top": top, "by": by}
