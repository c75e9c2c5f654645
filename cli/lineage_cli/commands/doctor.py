"""`smoke-lineage doctor`."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from lineage_cli import options
from lineage_cli.options import home_options

if TYPE_CHECKING:
    from lineage_service.doctor.diagnosis import Diagnosis, HealthCheck

ANSWER_IS_NO = 4
COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}
INDENT = " " * 19  # a status, a name, and the spaces behind them


@click.command("doctor")
@click.option("--spark", is_flag=True, help="Also start Spark and run a small job.")
@click.option("--deep", is_flag=True, help="Also read every file that a run needs, from the first byte to the last.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(spark: bool, deep: bool, as_json: bool, home: str | None, catalog: str | None) -> None:
    """Check the home, the catalog, the files of every run, published copies, Java and Spark. Nothing is changed.

    Exit code 4 where something is broken; notes and warnings are no failure.

    \b
    Example:
      smoke-lineage doctor --spark
      smoke-lineage doctor --deep
    """
    from lineage_cli.sink import print_text
    from lineage_service.doctor.examination import examine

    diagnosis = examine(home, catalog, spark=spark, deep=deep)
    if as_json:
        print_text(json.dumps(diagnosis.to_json(), ensure_ascii=False))
    else:
        print_text(_diagnosis_text(diagnosis), styled=True)
    if not diagnosis.ok:
        click.get_current_context().exit(ANSWER_IS_NO)


def _diagnosis_text(diagnosis: Diagnosis) -> str:
    lines = [line for check in diagnosis.checks for line in _check_lines(check)]
    problems = sum(check.status == "problem" for check in diagnosis.checks)
    end = "all fine" if not problems else "1 problem" if problems == 1 else f"{problems:,} problems"
    return "\n".join([*lines, "", end])


def _check_lines(check: HealthCheck) -> list[str]:
    """The check, and what to do below it; folded under itself on a terminal, one line each elsewhere."""
    from lineage_cli.tables import in_colour, safe

    terminal = options.is_terminal(sys.stdout)
    head = f"{check.status:<8} {check.name:<9} "
    texts = [safe(check.detail), *([f"hint: {safe(check.hint)}"] if check.hint else [])]
    width = max(30, shutil.get_terminal_size().columns - len(INDENT)) if terminal else None
    folded = [line for text in texts for line in (textwrap.wrap(text, width) if width else [text])]
    if terminal and in_colour():
        head = click.style(head[:8], fg=COLOURS[check.status]) + head[8:]
    return [head + folded[0], *(INDENT + line for line in folded[1:])]
