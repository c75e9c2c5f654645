"""`smoke-lineage run`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import CAPTURES, as_mapping, home_options, source_option, spark_options, var_option
from lineage_cli.program_arguments import ProgramCommand, arguments_of_program

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.progress import Event

    OpenedForRun = AbstractContextManager[tuple[Home, Callable[[Event], None] | None]]


@click.command("run", cls=ProgramCommand)
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
@click.option("--strict", is_flag=True, help="Of a program: refuse a write that cannot be traced, before it starts.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Of a program: write the report to this file, as JSON, instead of to standard error.",
)
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
    strict: bool,
    out: Path | None,
    home: str | None,
    catalog: str | None,
) -> None:
    """Run a workflow, store its outputs and capture its lineage. FILE is a workflow file (YAML), a .sql file with one
    query, or a PySpark program (.py), with its arguments behind it. The outputs are committed first. If the run is
    interrupted after that, only lineage is missing, and `index` completes it. A run that fails earlier leaves nothing
    behind. But if rows fail a check, they can be examined under the run's id until `gc`.

    Several files, or all workflow files below a folder, run in dependency order. Only workflows that are out of date
    run: those that are new or changed, whose source files have changed, or that read an output of one that runs.

    A program runs unchanged, in Spark's Connect mode. What it writes is captured, each write as a run of its own. A
    write that cannot be traced is made all the same, and reported with its line. Standard output and the exit code are
    the program's.

    \b
    Example:
      smoke-lineage run revenue.yml --var since=1996-01-01
      smoke-lineage run top_customers.sql --source orders=data/orders
      smoke-lineage run workflows/ --select +report
      smoke-lineage run --strict job.py 2026-11-01
    """
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other.")
    if master and remote:
        raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
    arguments = arguments_of_program()
    if arguments is not None:
        refused = {"--all": all_, "--select": select, "--var": variables, "--source": sources, "--json": as_json,
                   "--master": master}  # fmt: skip
        _refuse_options(refused, "a program")
        options_of_program = {"capture": capture, "remote": remote, "conf": as_mapping(conf), "strict": strict,
                              "index_engine": index_engine}  # fmt: skip
        with closing(options.open_home(home, catalog)) as opened:
            _run_program(opened, files[0], arguments, options_of_program, out)
    _refuse_options({"--strict": strict, "--out": out}, "a workflow")
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


_INSTEAD = {"--json": "--out FILE writes the report as JSON", "--master": "the program says where Spark runs"}


def _refuse_options(given: Mapping[str, object], what: str) -> None:
    for name, value in given.items():
        if value:
            hint = _INSTEAD.get(name)
            raise click.UsageError(f"{name} is no option of {what}" + (f": {hint}." if hint else "."))


def _run_program(
    home: Home, program: Path, arguments: list[str], given: Mapping[str, Any], out: Path | None
) -> NoReturn:
    """Runs a program and ends with its exit code."""
    from lineage_cli.program_output import report_program

    report = home.run_program(program, arguments=arguments, **given)
    report_program(report, out)
    raise SystemExit(report.exit_code)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
