"""Output of `run` for several workflows: why each runs or does not, and its report when it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_cli.messages import tell
from lineage_cli.output_stream import open_output
from lineage_cli.progress import clear_line
from lineage_cli.run_output import print_report

if TYPE_CHECKING:
    from lineage_service.home import Home
    from lineage_service.runs.chain.chain_run import ChainResult


def run_several(
    home: Home, files: Sequence[Path], given: Mapping[str, Any], *, select: Sequence[str], all_: bool, as_json: bool
) -> None:
    """Runs the workflows and prints their reports: JSON in the end, text as they come."""
    from lineage_service.runs.chain.chain_run import ChainFailed

    printed = 0

    def on_result(result: ChainResult) -> None:
        nonlocal printed
        clear_line()
        _tell_result(result)
        if result.report is not None and not as_json:
            if printed:
                with open_output() as stream:
                    stream.write_text("\n")
            print_report(result.report, as_json=False)
            printed += 1

    try:
        results = home.run_all(*files, select=list(select) or None, all=all_, on_result=on_result, **given)
    except ChainFailed as failed:
        if as_json:
            _print_json(failed.results)
        raise
    if as_json:
        _print_json(results)


def _tell_result(result: ChainResult) -> None:
    match result.state:
        case "up to date":
            tell(f"{result.workflow}: up to date ({result.reason})")
        case "to run":
            tell(f"{result.workflow}: runs, {result.reason}")
        case "skipped":
            tell(f"{result.workflow}: not run, {result.reason}")
        case "failed":
            tell(f"{result.workflow}: failed")
            for problem in result.error.problems if result.error is not None else ():
                tell(problem)
        case "committed":
            for warning in result.report.warnings if result.report is not None else ():
                tell(warning)


def _print_json(results: Sequence[ChainResult]) -> None:
    from lineage_service.render.json.documents import chain_document

    with open_output() as stream:
        stream.write_text(chain_document([each for each in results if each.state != "up to date"]))
