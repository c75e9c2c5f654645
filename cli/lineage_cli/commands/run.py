"""`smoke-lineage run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import CAPTURES, as_mapping, home_options, source_option, spark_options, var_option

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.progress import Event

    OpenedForRun = AbstractContextManager[tuple[Home, Callable[[Event], None] | None]]


@click.command("run")
@click.argument("files", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path, readable=False))
@click.option("--all", "all_", is_flag=True, help="Run all of several workflows, not only those out of date.")
@click.option(
    "--select",
    multiple=True,
    metavar="NAME",
    help="Run only this workflow; NAME+ adds those that depend on it, +NAME those that it needs; repeatable.",
)
@click.option("--capture", type=click.Choice(CAPTURES), help="Capture strategy, instead of the file's.")
@var_option
@source_option
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; of several workflows, an array.")
@click.option(
    "--verbose", is_flag=True, help="Print a line for each stage (rows, bytes, seconds), also without a terminal."
)
@click.option("--quiet", is_flag=True, help="Do not show progress.")
@home_options
def command(
    files: tuple[Path, ...],
    all_: bool,
    select: tuple[str, ...],
    capture: str | None,
    variables: tuple[tuple[str, str], ...],
    sources: tuple[tuple[str, str], ...],
    master: str | None,
    remote: str | None,
    conf: tuple[tuple[str, str], ...],
    index_engine: str,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    home: str | None,
    catalog: str | None,
) -> None:
    """Run a workflow, store its outputs and capture its lineage. FILE is a workflow file (YAML), or a .sql file with
    one query. The outputs are committed first. If the run is interrupted after that, only lineage is missing, and
    `index` completes it. A run that fails earlier leaves nothing behind. But if rows fail a check, they can be examined
    under the run's id until `gc`.

    Several files, or all workflow files below a folder, run in dependency order. Only workflows that are out of date
    run: those that are new or changed, whose source files have changed, or that read an output of one that runs.

    \b
    Example:
      smoke-lineage run revenue.yml --var since=1996-01-01
      smoke-lineage run top_customers.sql --source orders=data/orders
      smoke-lineage run workflows/ --select +report
    """
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other.")
    if master and remote:
        raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
    given = {
        "capture": capture,
        "vars": as_mapping(variables),
        "master": master,
        "remote": remote,
        "conf": as_mapping(conf),
        "index_engine": index_engine,
        "sources": sources,
    }
    if len(files) == 1 and not select and not _is_folder(files[0]):
        _run_one(files[0], given, opened_for_run(home, catalog, verbose=verbose, quiet=quiet), as_json=as_json)
        return
    from lineage_cli.chain_output import run_several

    with opened_for_run(home, catalog, verbose=verbose, quiet=quiet) as (opened, progress):
        run_several(opened, files, {**given, "progress": progress}, select=select, all_=all_, as_json=as_json)


@contextmanager
def opened_for_run(
    home: str | None, catalog: str | None, *, verbose: bool, quiet: bool
) -> Iterator[tuple[Home, Callable[[Event], None] | None]]:
    """The home, and the function that shows progress."""
    from lineage_cli.progress import progress_line, sigterm_as_interrupt

    with (
        sigterm_as_interrupt(),
        closing(options.open_home(home, catalog)) as opened,
        progress_line(verbose=verbose, quiet=quiet) as progress,
    ):
        yield opened, progress


def _run_one(file: Path, given: Mapping[str, Any], opening: OpenedForRun, *, as_json: bool) -> None:
    from lineage_cli.file_suggestions import suggest_close_file
    from lineage_cli.run_output import print_report
    from lineage_service.errors import ChecksFailed

    report = None
    try:
        with suggest_close_file(file), opening as (opened, progress):
            report = opened.run(file, **given, progress=progress)
    except ChecksFailed as failed:
        if as_json:
            print_report(failed.report, as_json=True)
        raise
    except KeyboardInterrupt:
        if report is None:
            raise  # otherwise the run is committed, and only the exit was interrupted
    assert report is not None
    for warning in report.warnings:
        tell(warning)
    print_report(report, as_json=as_json)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
