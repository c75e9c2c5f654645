"""`smoke-lineage validate`."""

from __future__ import annotations

from pathlib import Path

import click

from lineage_cli.messages import tell
from lineage_cli.options import as_mapping, home_options, var_option


@click.command("validate")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@var_option
@home_options
def command(
    files: tuple[Path, ...], variables: tuple[tuple[str, str], ...], home: str | None, catalog: str | None
) -> None:
    """Check workflow files and report all their problems. Spark is not started.

    \b
    Example:
      smoke-lineage validate revenue.yml rates.yml
    """
    from lineage_cli.missing_file import suggest_close_file
    from lineage_cli.sink import print_text
    from lineage_service.errors import LineageError, Problem, WorkflowError
    from lineage_service.runs.workflow_file import validate_workflow

    problems: list[Problem] = []
    for file in files:
        try:
            with suggest_close_file(file):
                warnings = validate_workflow(file, vars=as_mapping(variables), home=home, catalog=catalog)
        except LineageError as error:
            problems += error.problems
            continue
        for warning in warnings:
            tell(str(warning))
        print_text(f"{file}: ok{_warning_count(len(warnings))}")
    if problems:
        raise WorkflowError(problems)


def _warning_count(warnings: int) -> str:
    return f", {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
