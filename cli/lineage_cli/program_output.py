"""The report of a program's run: on standard error, since standard output is the program's; or in a file, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from lineage_cli.messages import tell
from lineage_service.programs.program_report import ProgramReport


def report_program(report: ProgramReport, out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    for line in _lines(report):
        tell(line)


def _lines(report: ProgramReport) -> Iterator[str]:
    for each in report.traced:
        written = each.report
        rows = sum(facts["rows"] for facts in written.outputs.values())
        yield f"run {written.run_id}: {each.position} wrote '{each.output}', {rows:,} rows, to {each.place}"
        for sources in written.capture.values():
            for source, facts in sources.items():
                pairs = "-" if facts.get("pairs") is None else f"{facts['pairs']:,}"
                yield f"  from '{source}': {pairs} pairs, by {facts.get('strategy') or '-'}"
        yield from (f"  {warning}" for warning in written.warnings)
    yield from map(str, report.untraced)
    yield from report.notes
    if not report.writes and not report.notes:
        yield f"{report.program} wrote nothing: there is nothing to trace"
