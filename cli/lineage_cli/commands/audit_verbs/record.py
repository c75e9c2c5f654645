"""`smoke-lineage audit record`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from lineage_cli import options
from lineage_cli.messages import tell
from lineage_cli.options import chosen_format, file_or_none, home_options

FORMATS = ("md", "html", "json")
SUFFIXES = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


@click.command("record")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Format. [default: by the suffix of --out, else md]"
)
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Write to this file.",
)
@home_options
def command(
    files: tuple[Path, ...], format_: str | None, as_json: bool, out: Path | None, home: str | None, catalog: str | None
) -> None:
    """Write the record of processing activities (GDPR Art. 30): for each workflow its controller, purpose, legal
    basis, categories of persons and data, recipients, retention, security measures, sources and outputs.

    It is made from the workflow files given, or from those of each workflow's latest run. Spark is not started.

    \b
    Example:
      smoke-lineage audit record workflows/*.yml --out record.html
    """
    out = file_or_none(out)
    format_ = chosen_format(format_, as_json, out, SUFFIXES, FORMATS)
    from lineage_cli.output_stream import open_output

    with closing(options.open_home(home, catalog)) as opened:
        record = opened.audit.record(*files)
    for each in record["workflows"]:
        if each["not_said"]:
            tell(f"note: workflow '{each['workflow']}' does not state: {', '.join(each['not_said'])}")
    with open_output(out) as stream:
        stream.write_text(_render_record(record, format_))
    if out is not None:
        tell(f"wrote {out}")


def _render_record(record: dict[str, Any], format_: str) -> str:
    if format_ == "json":
        from lineage_service.render.json.documents import record_document

        return record_document(record)
    from lineage_service.render.html.record_page import record_markdown, record_page

    return record_page(record) if format_ == "html" else record_markdown(record)
