"""`smoke-lineage audit access`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.case_options import case_options
from lineage_cli.messages import tell
from lineage_cli.options import WholeNumber, file_or_none, home_options
from lineage_cli.subject_options import subject_options

if TYPE_CHECKING:
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.subjects.subject_arguments import Subject


@click.command("access")
@subject_options
@click.option("--one-person", is_flag=True, help="The subjects given are one person, identified in several ways.")
@click.option(
    "--min-group",
    type=WholeNumber(),
    default=5,
    show_default=True,
    help="Show nothing of a row that concerns other people too, if it concerns fewer than K people.",
    metavar="K",
)
@click.option("--json", "as_json", is_flag=True, help="Print the document; an array if there are several persons.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Write to this file.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Also write an HTML page for the person to read and print.",
)
@case_options
@home_options
def command(
    subjects: list[Subject],
    one_person: bool,
    min_group: int,
    as_json: bool,
    out: Path | None,
    html: Path | None,
    case: CaseOptions,
    home: str | None,
    catalog: str | None,
) -> None:
    """Report what is held about a person (GDPR Art. 15): their rows, every row derived from them in every run
    that is kept, and results that they only influenced; for which purpose, for which recipients, for how long.

    Personal data is not masked, because the answer is for the person. Rows that concern other people too show
    only what concerns all of them. The answer is logged before it is printed. Each person gets a separate
    document. Spark is started only if the lineage of a run is not complete.

    \b
    Example:
      smoke-lineage audit access --subject customer=42 --html answer.html --request 2026-117
    """
    persons = [subjects] if one_person else [[each] for each in subjects]
    if html is not None and len(persons) > 1:
        raise click.UsageError("--html is a page for one person: ask for one at a time, or give --one-person.")
    if min_group < 2:
        raise click.UsageError("--min-group must be 2 or larger.")
    from lineage_cli.output_stream import open_output

    out = file_or_none(out)
    documents = []
    with closing(options.open_home(home, catalog)) as opened:
        for person in persons:
            answer = opened.audit.access(person, case=case, min_group=min_group)
            documents.append(answer.document)
            for note in answer.notes:
                tell(f"note: {note}")
    if html is not None:
        from lineage_service.render.html.access_page import access_page

        with open_output(html) as stream:
            stream.write_text(access_page(documents[0]))
        tell(f"wrote {html}")
    if html is None or as_json or out is not None:
        with open_output(out) as stream:
            stream.write_text(_text(documents, as_json=as_json or (out is not None and out.suffix == ".json")))


def _text(documents: Sequence[dict[str, Any]], *, as_json: bool) -> str:
    if as_json:
        from lineage_service.render.json.documents import access_document

        return access_document(documents)
    from lineage_cli.access_text import access_text

    return "\n".join(access_text(each) for each in documents)
