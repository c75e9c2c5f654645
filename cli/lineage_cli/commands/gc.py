"""`smoke-lineage gc`."""

from __future__ import annotations

import json
from contextlib import closing

import click

from lineage_cli import options
from lineage_cli.options import home_options


@click.command("gc")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(dry_run: bool, as_json: bool, home: str | None, catalog: str | None) -> None:
    """Remove from the home what no committed run needs: what interrupted runs left behind, and runs
    that failed a check.

    \b
    Example:
      smoke-lineage gc --dry-run
    """
    from lineage_cli.sink import print_text
    from lineage_service.progress import in_bytes

    with closing(options.open_home(home, catalog)) as opened:
        result = opened.gc(dry_run=dry_run)
    if as_json:
        print_text(json.dumps(result))
        return
    folders = f"{result['removed']:,} {'folder' if result['removed'] == 1 else 'folders'}"
    print_text(f"{'would remove' if dry_run else 'removed'} {folders}, {in_bytes(result['bytes'])}")
