"""`smoke-lineage explain`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import CAPTURES, as_mapping, home_options, source_option, var_option


@click.command("explain")
@click.argument("file", metavar="[FILE]", required=False, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--run",
    is_flag=False,
    flag_value="",
    metavar="[RUN]",
    help="Show what a run did, with rows expected and rows read. RUN is an id; default: the latest run of FILE.",
)
@click.option("--capture", type=click.Choice(CAPTURES), help="Capture strategy, instead of the file's.")
@var_option
@source_option
@click.option(
    "--as-steps",
    is_flag=True,
    help="Print a workflow that does the same: a step for each operator, SQL where there is none.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    file: Path | None,
    run: str | None,
    capture: str | None,
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    as_steps: bool,
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show what a run would do: the steps as a tree, how lineage is captured and why, and the origin of each
    column. If the workflow has run before, the rows of its last run are shown. Spark is not started.

    \b
    Example:
      smoke-lineage explain revenue.yml
      smoke-lineage explain revenue.yml --run
      smoke-lineage explain top_customers.sql --as-steps > top_customers.yml
    """
    from lineage_cli.file_suggestions import suggest_close_file
    from lineage_cli.output_stream import open_output
    from lineage_service.runs.workflow_file import explain_run, explain_workflow, workflow_name

    if file is None and not run:
        raise click.UsageError("Missing argument 'FILE': name a workflow file, or a run with --run.")
    if as_steps:
        if run is not None or file is None or as_json or capture:
            raise click.UsageError(
                "--as-steps prints a workflow: it cannot be combined with --run, --json or --capture."
            )
        _print_steps(file, variables, sources, home, catalog)
        return
    if run is not None:
        if capture or variables or sources:
            message = "--run shows a run of the past: it cannot be combined with --capture, --var or --source."
            raise click.UsageError(message)
        explanation = explain_run(run or workflow_name(str(file)), home=home, catalog=catalog)
    else:
        assert file is not None
        with suggest_close_file(file):
            explanation = explain_workflow(
                file, vars=as_mapping(variables), capture=capture, home=home, catalog=catalog, sources=sources
            )
    for warning in explanation.warnings:
        tell(str(warning))
    for note in explanation.notes:
        tell(f"note: {note}")
    with open_output() as stream:
        if as_json:
            from lineage_service.render.json.documents import explanation_document

            stream.write_text(explanation_document(explanation))
            return
        from lineage_cli.explanation_text import write_explanation
        from lineage_cli.tree_drawing import prints_guides

        terminal = options.is_terminal(sys.stdout)
        # Piped text is always UTF-8; a terminal may have another encoding.
        ascii = terminal and not prints_guides(sys.stdout.encoding)
        width = shutil.get_terminal_size().columns if terminal else None
        write_explanation(explanation.to_json(), stream, width=width, ascii=ascii)


def _print_steps(
    file: Path,
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    home: str | None,
    catalog: str | None,
) -> None:
    from lineage_cli.file_suggestions import suggest_close_file
    from lineage_cli.output_stream import open_output
    from lineage_service.render.yaml_text import yaml_text
    from lineage_service.runs.workflow_file import workflow_as_steps

    with suggest_close_file(file):
        content, notes = workflow_as_steps(
            file, vars=as_mapping(variables), home=home, catalog=catalog, sources=sources
        )
    for note in notes:
        tell(f"note: {note}")
    with open_output() as stream:
        stream.write_text(yaml_text(content))
