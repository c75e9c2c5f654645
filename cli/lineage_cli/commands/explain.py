"""`smoke-lineage explain`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from lineage_cli.options import CAPTURES, as_mapping, home_options, var_option


@click.command("explain")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@click.option("--capture", type=click.Choice(CAPTURES), help="Capture strategy, instead of the file's.")
@var_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    file: Path,
    capture: str | None,
    variables: tuple[tuple[str, str], ...],
    as_json: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show what a run would do: the steps, and how lineage is captured and why. Spark is not started.

    \b
    Example:
      smoke-lineage explain revenue.yml
    """
    from lineage_cli.sink import print_text
    from lineage_service.workflow import explain_workflow

    explanation = explain_workflow(file, vars=as_mapping(variables), capture=capture, home=home, catalog=catalog)
    for warning in explanation.warnings:
        click.echo(str(warning), err=True)
    if not as_json:
        print_text(explanation.text())
        return
    from lineage_cli.values import json_document

    print_text(json.dumps(json_document(explanation.to_json()), indent=2, ensure_ascii=False))
