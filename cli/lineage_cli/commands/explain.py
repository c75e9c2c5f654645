"""`smoke-lineage explain`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import CAPTURES, as_mapping, home_options, var_option


@click.command("explain")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--run",
    is_flag=False,
    flag_value="",
    metavar="[RUN]",
    help="What a run did instead: rows expected beside rows read. RUN is an id; without one, FILE's latest.",
)
@click.option("--capture", type=click.Choice(CAPTURES), help="Capture strategy, instead of the file's.")
@var_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    file: Path | None,
    run: str | None,
    capture: str | None,
    variables: tuple[tuple[str, str], ...],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show what a run would do: the steps as a tree, how lineage is captured and why, and what the columns come
    from. Where the workflow has run before, with the rows of its last run. Spark is not started.

    \b
    Example:
      smoke-lineage explain revenue.yml
      smoke-lineage explain revenue.yml --run
    """
    from lineage_cli.missing_file import suggest_close_file
    from lineage_cli.sink import open_sink
    from lineage_service.runs.workflow_file import explain_run, explain_workflow, workflow_name

    if file is None and not run:
        raise click.UsageError("Missing argument 'FILE': name a workflow file, or a run with --run.")
    if run is not None:
        if capture or variables:
            raise click.UsageError("--run tells what was done: --capture and --var change nothing of it.")
        explanation = explain_run(run or workflow_name(str(file)), home=home, catalog=catalog)
    else:
        assert file is not None
        with suggest_close_file(file):
            explanation = explain_workflow(
                file, vars=as_mapping(variables), capture=capture, home=home, catalog=catalog
            )
    for warning in explanation.warnings:
        tell(str(warning))
    for note in explanation.notes:
        tell(f"note: {note}")
    facts = explanation.to_json()
    with open_sink() as sink:
        if as_json:
            from lineage_cli.values import json_document

            sink.write_text(json.dumps(json_document(facts), indent=2, ensure_ascii=False) + "\n")
            return
        from lineage_cli.explanation_text import write_explanation
        from lineage_cli.trees import prints_guides

        terminal = options.is_terminal(sys.stdout)
        # Piped text is UTF-8, as all of ours; a terminal may be of another kind.
        ascii = terminal and not prints_guides(sys.stdout.encoding)
        width = shutil.get_terminal_size().columns if terminal else None
        write_explanation(facts, sink, width=width, ascii=ascii)
