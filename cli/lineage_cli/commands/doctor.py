"""`smoke-lineage doctor`."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import click

from lineage_cli import options
from lineage_cli.options import home_options
from lineage_service.render.safe_text import escape_line

if TYPE_CHECKING:
    from lineage_service.doctor.diagnosis import Diagnosis, HealthCheck

ANSWER_IS_NO = 4
COLOURS = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "red"}
INDENT = " " * 19  # width of the status and the name


@click.command("doctor")
@click.option("--spark", is_flag=True, help="Also start Spark and run a small job.")
@click.option("--deep", is_flag=True, help="Also read every byte of every file that a run needs.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(spark: bool, deep: bool, as_json: bool, home: str | None, catalog: str | None) -> None:
    """Check the home, the catalog, the files of every run, published copies, Java and Spark. Nothing is changed.

    The exit code is 4 if there is a problem; notes and warnings are not problems.

    \b
    Example:
      smoke-lineage doctor --spark
      smoke-lineage doctor --deep
    """
    from lineage_cli.output_stream import print_text
    from lineage_service.doctor.examination import examine

    diagnosis = examine(home, catalog, spark=spark, deep=deep)
    if as_json:
        from lineage_service.render.json.documents import diagnosis_document

        print_text(diagnosis_document(diagnosis))
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
    """Returns the check and its hint: wrapped on a terminal, one line each elsewhere."""
    from lineage_cli.tables import in_colour

    terminal = options.is_terminal(sys.stdout)
    head = f"{check.status:<8} {check.name:<9} "
    texts = [escape_line(check.detail), *([f"hint: {escape_line(check.hint)}"] if check.hint else [])]
    width = max(30, shutil.get_terminal_size().columns - len(INDENT)) if terminal else None
    folded = [line for text in texts for line in (textwrap.wrap(text, width) if width else [text])]
    if terminal and in_colour():
        head = click.style(head[:8], fg=COLOURS[check.status]) + head[8:]
    return [head + folded[0], *(INDENT + line for line in folded[1:])]
