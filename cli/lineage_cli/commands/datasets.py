"""`smoke-lineage datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.options import Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer


@click.command("datasets")
@click.argument("dataset", metavar="[DATASET]...", nargs=-1)
@click.option("--run", metavar="RUN", help="Only datasets of this run: its id, or the start of it.")
@click.option(
    "--columns",
    "columns_",
    is_flag=True,
    help="List their columns: what each is computed from, what only influences it, and whether it is personal data.",
)
@click.option(
    "--through",
    is_flag=True,
    help="With --columns: trace columns through the outputs of other workflows, down to files.",
)
@limit_option
@output_options
@home_options
def command(
    dataset: tuple[str, ...],
    run: str | None,
    columns_: bool,
    through: bool,
    limit: int | None,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """List the datasets that the catalog holds: sources, outputs, kept steps and saved queries; or their columns.

    \b
    Examples:
      smoke-lineage datasets --run 3f2a
      smoke-lineage datasets totals --columns --through
    """
    if through and not columns_:
        raise click.UsageError("--through traces columns: it needs --columns.")
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home
    from lineage_cli.listings import COLUMNS, DATASETS, fit_listing

    def question(opened: Home) -> Answer:
        names = {"dataset": list(dataset)} if dataset else {}
        if columns_:
            return opened.columns(**names, run=run, through=through, limit=output.limit(limit))
        return opened.datasets(**names, run=run, limit=output.limit(limit))

    with ask_home(home, catalog, question) as answer:
        write_answer(fit_listing(answer, COLUMNS if columns_ else DATASETS, output), output)
