"""`smoke-lineage gc`."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import click

from lineage_cli import options
from lineage_cli.cases import actor_option
from lineage_cli.messages import tell
from lineage_cli.options import home_options


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option(
    "--retention",
    is_flag=True,
    help="Also remove what is held of runs past the retention_days of their workflow; this is logged.",
)
@actor_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(
    dry_run: bool, retention: bool, actor: str | None, as_json: bool, home: str | None, catalog: str | None
) -> None:
    """Remove from the home what no committed run needs: what interrupted runs left behind, and runs
    that failed a check. With --retention also runs that are older than their workflow allows; what later runs
    made of them stays, and their lineage is cut there.

    \b
    Example:
      smoke-lineage gc --dry-run
      smoke-lineage gc --retention
    """
    from lineage_cli.sink import print_text
    from lineage_service.progress import format_bytes

    try:
        with closing(options.open_home(home, catalog)) as opened:
            result = opened.gc(dry_run=dry_run, retention=retention, actor=actor)
    except KeyboardInterrupt:
        if dry_run:
            raise
        from lineage_service.errors import RunError

        raise RunError(
            "interrupted; some of it may be removed already", hint="the same command removes the rest"
        ) from None
    for note in result.get("unpublished", ()):
        click.echo(f"note: {note}", err=True)
    if as_json:
        print_text(json.dumps(result))
        return
    if retention:
        _tell_expired(result, dry_run=dry_run)
    folders = f"{result['removed']:,} {'folder' if result['removed'] == 1 else 'folders'}"
    print_text(f"{'would remove' if dry_run else 'removed'} {folders}, {format_bytes(result['bytes'])}")


def _tell_expired(result: dict[str, Any], *, dry_run: bool) -> None:
    from lineage_cli.sink import print_text

    one = len(result["expired"]) == 1
    runs = f"{len(result['expired']):,} {'run past its' if one else 'runs past their'} retention"
    print_text(f"{runs}{', which would go' if dry_run else ''}")
    for run_id in result["expired"]:
        print_text(f"  {run_id}")
    for name in result["cut"]:
        tell(f"note: lineage is cut at {name}: the run that made its rows is gone")
    for path in result["published"]:
        tell(f"note: the published copy '{path}' {'would go' if dry_run else 'went'} too")
    for note in result["notes"]:
        tell(f"note: {note}")
