"""`smoke-lineage schema`."""

from __future__ import annotations

import json

import click

from lineage_cli.options import unused_home_options


@click.command("schema")
@unused_home_options
def command(home: str | None, catalog: str | None) -> None:  # noqa: ARG001 - every verb takes them
    """Print the JSON Schema of the workflow file, for editors.

    \b
    Example:
      smoke-lineage schema > workflow.schema.json
    """
    from lineage_cli.sink import print_text
    from lineage_service.spec.json_schema import workflow_json_schema

    print_text(json.dumps(workflow_json_schema(), indent=2, ensure_ascii=False))
