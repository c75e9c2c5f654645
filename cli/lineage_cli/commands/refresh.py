"""`smoke-lineage refresh`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import LARGEST_RID, as_mapping, as_rid, home_options, reveal_option, session_options

if TYPE_CHECKING:
    from lineage_service.refresh.refresh_report import RefreshReport

FILE = click.Path(path_type=Path, exists=False)


@click.command("refresh")
@click.argument("datasets", metavar="DATASET…", nargs=-1, required=True)
@click.option(
    "--removed",
    metavar="ROWS",
    multiple=True,
    help="Rows that were removed: a row id (repeatable), or a predicate; DuckDB SQL.",
)
@click.option(
    "--changed", metavar="FILE", type=FILE, help="Corrected rows: _rid or the columns of --key, and the new values."
)
@click.option("--added", metavar="FILE", type=FILE, help="New rows, with all columns.")
@click.option("--key", metavar="COLUMN", multiple=True, help="Column that identifies the corrected row; repeatable.")
@reveal_option
@session_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="Print a line for each stage, also without a terminal.")
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@home_options
def command(
    datasets: tuple[str, ...],
    removed: tuple[str, ...],
    changed: Path | None,
    added: Path | None,
    key: tuple[str, ...],
    reveal: bool,
    master: str | None,
    remote: str | None,
    conf: tuple[tuple[str, str], ...],
    as_json: bool,
    verbose: bool,
    quiet: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Bring outputs up to date after a change in a source, without running everything again. Only rows that
    the change may affect are recomputed; the rest is shared with the previous run. The result is a run like
    any other, with lineage. Unchanged rows keep their row ids. FILE is Parquet, CSV or JSON.

    DATASET is a source. Without options, its files are compared with what the run read, to find changed, added
    and removed rows. An output or the name of a workflow means all of its sources.

    \b
    Examples:
      smoke-lineage refresh orders --removed "o_orderkey = 7"
      smoke-lineage refresh orders --changed corrections.csv --key o_orderkey
      smoke-lineage refresh orders
    """
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other.")
    if master and remote:
        raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
    from lineage_cli.progress import progress_line, sigterm_as_interrupt

    with (
        sigterm_as_interrupt(),
        closing(options.open_home(home, catalog)) as opened,
        progress_line(verbose=verbose, quiet=quiet) as progress,
    ):
        report = opened.refresh(
            *datasets,
            removed=_rows(removed),
            changed=changed,
            added=added,
            key=list(key) or None,
            reveal=reveal,
            master=master,
            remote=remote,
            conf=as_mapping(conf),
            progress=progress,
        )
    for warning in report.warnings:
        tell(warning)
    _print(report, as_json=as_json)


def _rows(removed: tuple[str, ...]) -> str | list[int] | None:
    """Returns row ids, or one predicate."""
    if not removed:
        return None
    if all(each.strip().isdecimal() for each in removed):
        rids = [as_rid(each.strip()) for each in removed]
        if None in rids:
            raise click.UsageError(f"--removed: a row id is a whole number, {LARGEST_RID} at most.")
        return [rid for rid in rids if rid is not None]
    if len(removed) > 1:
        raise click.UsageError("--removed takes row ids, or one predicate.")
    return removed[0]


def _print(result: RefreshReport, *, as_json: bool) -> None:
    from lineage_cli.output_stream import open_output
    from lineage_cli.tables import Column, write_table

    with open_output() as stream:
        if as_json:
            from lineage_service.render.json.documents import run_document

            stream.write_text(run_document(result))
            return
        report = result.to_json()
        if report["run_id"] == report["refreshed"]:
            stream.write_text(f"run {report['run_id']}  {report['workflow']}  is up to date\n")
            return
        stream.write_text(f"run {report['run_id']}  {report['workflow']}  refreshed from {report['refreshed']}\n\n")
        numbers = [Column(name, right=True) for name in ("removed", "changed", "added")]
        rows = [(name, "source", "", *_counts(facts), "") for name, facts in report["sources"].items()]
        rows += [
            (name, facts["way"], f"{facts['rows']:,}", *_counts(facts), facts.get("reason") or "")
            for name, facts in report["datasets"].items()
        ]
        columns = [Column("dataset"), Column("computed"), Column("rows", right=True), *numbers, Column("because")]
        write_table(columns, rows, stream, terminal=False)


def _counts(facts: Mapping[str, Any]) -> list[str]:
    return [f"{facts[name]:,}" for name in ("removed", "changed", "added")]
