"""`smoke-lineage gc`."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from lineage_cli import options
from lineage_cli.case_options import actor_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--retention",
    is_flag=True,
    help="Also remove runs older than the retention_days of their workflow. This is logged.",
)
@actor_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    dry_run: bool, retention: bool, actor: str | None, as_json: bool, home: str | None, catalog: str | None
) -> None:
    """Remove what no committed run needs from the home: leftovers of interrupted runs, and runs that failed
    a check. With --retention also runs that are older than their workflow allows. Data that later runs derived
    from them stays, but its lineage ends there.

    \b
    Example:
      smoke-lineage gc --dry-run
      smoke-lineage gc --retention
    """
    from lineage_cli.output_stream import print_text
    from lineage_service.progress import format_bytes

    try:
        with closing(options.open_home(home, catalog)) as opened:
            result = opened.gc(dry_run=dry_run, retention=retention, actor=actor)
    except KeyboardInterrupt:
        if dry_run:
            raise
        from lineage_service.errors import RunError

        raise RunError(
            "interrupted; some files may be removed already", hint="run the same command again to remove the rest"
        ) from None
    for note in result.get("unpublished", ()):
        click.echo(f"note: {note}", err=True)
    if as_json:
        from lineage_service.render.json.documents import gc_document

        print_text(gc_document(result))
        return
    if retention:
        _tell_expired(result, dry_run=dry_run)
    folders = f"{result['removed']:,} {'folder' if result['removed'] == 1 else 'folders'}"
    print_text(f"{'would remove' if dry_run else 'removed'} {folders}, {format_bytes(result['bytes'])}")


def _tell_expired(result: dict[str, Any], *, dry_run: bool) -> None:
    from lineage_cli.output_stream import print_text

    one = len(result["expired"]) == 1
    runs = f"{len(result['expired']):,} {'run past its' if one else 'runs past their'} retention"
    print_text(f"{runs}{', to be removed' if dry_run else ''}")
    for run_id in result["expired"]:
        print_text(f"  {run_id}")
    for name in result["cut"]:
        tell(f"note: lineage is cut at {name}: the run that made its rows was removed")
    for path in result["published"]:
        tell(f"note: the published copy '{path}' {'would be' if dry_run else 'was'} removed too")
    for note in result["notes"]:
        tell(f"note: {note}")
