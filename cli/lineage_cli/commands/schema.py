"""`smoke-lineage schema`."""

from __future__ import annotations

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
    from lineage_cli.output_stream import print_text
    from lineage_service.render.json.documents import schema_document
    from lineage_service.spec.json_schema import workflow_json_schema

    print_text(schema_document(workflow_json_schema()))
