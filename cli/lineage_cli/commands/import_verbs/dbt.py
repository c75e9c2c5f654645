"""`smoke-lineage import dbt`."""

from __future__ import annotations

from pathlib import Path

import click

from lineage_cli.import_output import import_options, write_import


@click.command("dbt")
@click.argument("manifest", metavar="MANIFEST", type=click.Path(path_type=Path, readable=False))
@import_options
def command(
    manifest: Path,
    sources: tuple[tuple[str, str], ...],
    out: Path | None,
    force: bool,
    as_json: bool,
    home: str | None,  # noqa: ARG001 - every verb
    catalog: str | None,  # noqa: ARG001
) -> None:
    """Make a workflow file from a dbt project. MANIFEST is target/manifest.json, as `dbt compile` writes it
    (version 12: dbt 1.8 or later).

    Each compiled SQL model becomes an `sql` step; ephemeral models are inlined; sources and seeds become
    sources. The tests not_null, unique and accepted_values become checks. Models that dbt stores as tables
    become outputs, and so do views that no other model reads. Everything else is listed, with the reason.

    \b
    Example:
      smoke-lineage import dbt target/manifest.json --source raw.orders=data/orders.csv --out shop.yml
    """
    from lineage_service.importers.dbt.project import dbt_project

    write_import(lambda: dbt_project(manifest), sources, out, force=force, as_json=as_json)
