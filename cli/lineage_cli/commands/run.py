"""`smoke-lineage run`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import CAPTURES, as_mapping, home_options, spark_options, var_option


@click.command("run")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path, readable=False))
@click.option("--capture", type=click.Choice(CAPTURES), help="Capture strategy, instead of the file's.")
@var_option
@spark_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--verbose", is_flag=True, help="A line for each stage: rows, bytes, seconds; also without a terminal.")
@click.option("--quiet", is_flag=True, help="No progress.")
@home_options
def command(
    file: Path,
    capture: str | None,
    variables: tuple[tuple[str, str], ...],
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
    """Run a workflow, keep its outputs and capture its lineage. The outputs are committed first; an
    interruption after that costs lineage only, and `index` finishes it. A run that fails before leaves
    nothing, except where rows fail a check: these can be looked at under the run's id, until `gc`.

    \b
    Example:
      smoke-lineage run revenue.yml --var since=1996-01-01
    """
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other.")
    if master and remote:
        raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
    from lineage_cli.missing_file import suggest_close_file
    from lineage_cli.progress import progress_line, sigterm_as_interrupt
    from lineage_service.errors import ChecksFailed

    report = None
    try:
        with (
            suggest_close_file(file),
            sigterm_as_interrupt(),
            closing(options.open_home(home, catalog)) as opened,
            progress_line(verbose=verbose, quiet=quiet) as progress,
        ):
            report = opened.run(
                file,
                capture=capture,
                vars=as_mapping(variables),
                master=master,
                remote=remote,
                conf=as_mapping(conf),
                index_engine=index_engine,
                progress=progress,
            )
    except ChecksFailed as failed:
        if as_json:
            _print_report(failed.report.to_json(), as_json=True)
        raise
    except KeyboardInterrupt:
        if report is None:
            raise  # else the run is committed, and only our leaving was interrupted
    assert report is not None
    for warning in report.warnings:
        tell(warning)
    _print_report(report.to_json(), as_json=as_json)


def _print_report(report: Mapping[str, Any], *, as_json: bool) -> None:
    from lineage_cli.sink import open_sink
    from lineage_cli.tables import Column, write_table

    with open_sink() as sink:
        if as_json:
            from lineage_cli.values import json_document

            sink.write_text(json.dumps(json_document(report), ensure_ascii=False) + "\n")
            return
        sink.write_text(f"run {report['run_id']}  {report['workflow']}  {report['status']}\n")
        outputs = list(_output_rows(report))
        if outputs:
            sink.write_text("\n")
            write_table([Column("output"), Column("rows", right=True)], outputs, sink, terminal=False)
        captured = list(_capture_rows(report))
        if captured:
            sink.write_text("\n")
            columns = [Column("output"), Column("source"), Column("capture"), Column("pairs", right=True)]
            write_table(columns, captured, sink, terminal=False)


def _output_rows(report: Mapping[str, Any]) -> Iterator[Sequence[str | None]]:
    for name, facts in report["outputs"].items():
        yield name, _number(facts.get("rows"))


def _capture_rows(report: Mapping[str, Any]) -> Iterator[Sequence[str | None]]:
    for output, sources in report["capture"].items():
        for source, facts in sources.items():
            yield output, source, facts.get("strategy") or "-", _number(facts.get("pairs"))


def _number(value: int | None) -> str:
    """Not every number is known: lineage that is captured later, or never, has no pairs yet."""
    return "-" if value is None else f"{value:,}"
