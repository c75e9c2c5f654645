"""The report of a run, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_service.runs.run_report import RunReport


def print_report(result: RunReport, *, as_json: bool) -> None:
    from lineage_cli.output_stream import open_output
    from lineage_cli.tables import Column, write_table

    with open_output() as stream:
        if as_json:
            from lineage_service.render.json.documents import run_document

            stream.write_text(run_document(result))
            return
        report = result.to_json()
        stream.write_text(f"run {report['run_id']}  {report['workflow']}  {report['status']}\n")
        outputs = list(_output_rows(report))
        if outputs:
            stream.write_text("\n")
            write_table([Column("output"), Column("rows", right=True)], outputs, stream, terminal=False)
        captured = list(_capture_rows(report))
        if captured:
            stream.write_text("\n")
            columns = [Column("output"), Column("source"), Column("capture"), Column("pairs", right=True)]
            write_table(columns, captured, stream, terminal=False)


def _output_rows(report: Mapping[str, Any]) -> Iterator[Sequence[str | None]]:
    for name, facts in report["outputs"].items():
        yield name, _number(facts.get("rows"))


def _capture_rows(report: Mapping[str, Any]) -> Iterator[Sequence[str | None]]:
    for output, sources in report["capture"].items():
        for source, facts in sources.items():
            yield output, source, facts.get("strategy") or "-", _number(facts.get("pairs"))


def _number(value: int | None) -> str:
    """Returns the number, or `-` if it is unknown: lineage that is captured later, or never, has no pairs yet."""
    return "-" if value is None else f"{value:,}"
