"""`smoke-lineage validate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lineage_cli.messages import tell
from lineage_cli.options import as_mapping, home_options, source_option, var_option


@click.command("validate")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@var_option
@source_option
@home_options
def command(
    files: tuple[Path, ...],
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    home: str | None,
    catalog: str | None,
) -> None:
    """Check workflow files and report all their problems. Spark is not started. If several files are given, one may
    read outputs of another that has not run yet.

    \b
    Example:
      smoke-lineage validate revenue.yml rates.yml
    """
    from lineage_cli.file_suggestions import suggest_close_file
    from lineage_cli.output_stream import print_text
    from lineage_service.errors import LineageError, Problem, WorkflowError
    from lineage_service.runs.workflow_file import outputs_of_files, validate_workflow

    problems: list[Problem] = []
    given: dict[str, Any] = {"vars": as_mapping(variables), "home": home, "catalog": catalog}
    if len(files) > 1:
        given["beside"] = outputs_of_files(files)
    queries = [file for file in files if file.suffix.lower() == ".sql"]
    for file in files:
        try:
            with suggest_close_file(file):
                own = sources if file in queries or not queries else ()
                warnings = validate_workflow(file, **given, sources=own)
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
