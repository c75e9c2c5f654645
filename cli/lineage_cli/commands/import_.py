"""`smoke-lineage import`: the group of its verbs."""

from __future__ import annotations

import click

from lineage_cli.commands.import_verbs import dbt, spark_pipeline

IMPORT_VERBS: dict[str, click.Command] = {"dbt": dbt.command, "spark-pipeline": spark_pipeline.command}


@click.group("import", commands=IMPORT_VERBS, subcommand_metavar="TOOL [OPTIONS] …")
def command() -> None:
    """Make a workflow file from a project of another tool: one `sql` step for each view or model, with its
    comments. What cannot be imported is listed, with the reason. `smoke-lineage import TOOL --help` explains
    each tool.

    \b
    Example:
      smoke-lineage import dbt target/manifest.json --out shop.yml
    """
