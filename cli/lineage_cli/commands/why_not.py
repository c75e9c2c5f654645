"""`smoke-lineage why-not`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineage_cli.messages import tell
from lineage_cli.options import Output, Start, WholeNumber, home_options, output_options, reveal_option, start_options

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.why_not.why_not_result import WhyNot


@click.command("why-not")
@click.argument("source", metavar="SOURCE")
@click.option("--to", required=True, metavar="OUTPUT", help="Output or kept step in which the rows are missing.")
@start_options(required=True)
@click.option("--rids", is_flag=True, help="Print each lost row with its step and reason, instead of counts.")
@click.option(
    "--limit",
    type=WholeNumber(),
    help="At most N row ids of each reason [default: 5 in the table, 10 in JSON]; with --rids, at most N rows.",
)
@reveal_option
@output_options
@home_options
def command(
    source: str,
    to: str,
    start: Start,
    rids: bool,
    limit: int | None,
    reveal: bool,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show at which step rows of SOURCE are lost on their way to an output, and why.

    For each step: how many of the rows enter it, how many are lost there, and because of which
    condition or which missing join partner. Rows that arrive are counted, together with the rows
    of the output that contain them. Unless all rows arrive, Spark evaluates the steps again over
    the data that the run read; rows of a file that has changed since cannot be followed. If the
    output belongs to another workflow, the rows are followed through each workflow in between.

    \b
    Examples:
      smoke-lineage why-not orders --key o_orderkey=7 --to totals
      smoke-lineage why-not customer --where "c_mktsegment = 'BUILDING'" --to totals --json
      smoke-lineage why-not orders --all --to totals --rids
    """
    from lineage_cli.home_question import ask_home

    def question(opened: Home) -> WhyNot:
        shown = output.limit(limit) if rids else limit
        return opened.why_not(source, to=to, **start.arguments(), limit=shown, rids=rids, reveal=reveal)

    with ask_home(home, catalog, question, "following the rows") as found:
        if output.format == "json":
            _write_json(found, output)
        elif rids or output.format != "table":
            from lineage_cli.answer_output import write_answer

            write_answer(found.answer(), output)
            return
        else:
            from lineage_cli.output_stream import open_output
            from lineage_cli.why_not_text import write_losses

            with open_output(output.out) as stream:
                write_losses(found, stream, terminal=output.on_terminal, limit=limit)
    if output.out is not None:
        tell(f"wrote {output.out}")
    for note in found.notes:
        tell(f"note: {note}")


def _write_json(answer: WhyNot, output: Output) -> None:
    from lineage_cli.output_stream import open_output
    from lineage_service.render.json.documents import why_not_document

    with open_output(output.out) as stream:
        stream.write_text(why_not_document(answer))
