"""`smoke-lineage import spark-pipeline`."""

from __future__ import annotations

from pathlib import Path

import click

from lineage_cli.import_output import import_options, write_import


@click.command("spark-pipeline")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, readable=False))
@import_options
def command(
    folder: Path,
    sources: tuple[tuple[str, str], ...],
    out: Path | None,
    force: bool,
    as_json: bool,
    home: str | None,  # noqa: ARG001 - every verb
    catalog: str | None,  # noqa: ARG001
) -> None:
    """Make a workflow file from a Spark Declarative Pipelines project. DIR has its spark-pipeline.yml; that
    file can be given too.

    Each view becomes an `sql` step, and each materialized view an output. Streaming tables, flows and
    definitions in Python are listed, with the reason.

    \b
    Example:
      smoke-lineage import spark-pipeline sales --source orders=data/orders --out sales.yml
    """
    from lineage_service.importers.spark_pipeline.project import pipeline_project

    write_import(lambda: pipeline_project(folder), sources, out, force=force, as_json=as_json)
