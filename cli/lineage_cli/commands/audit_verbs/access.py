"""`smoke-lineage audit access`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.cases import case_options
from lineage_cli.messages import tell
from lineage_cli.options import WholeNumber, file_or_none, home_options
from lineage_cli.subjects import subject_options

if TYPE_CHECKING:
    from lineage_service.audit.cases.case_lifecycle import CaseOptions
    from lineage_service.subjects.subject_arguments import Subject


@click.command("access")
@subject_options
@click.option("--one-person", is_flag=True, help="The subjects given are one person, known by several kinds.")
@click.option(
    "--min-group",
    type=WholeNumber(),
    default=5,
    show_default=True,
    help="Of a row that includes others show nothing where it is of fewer than K persons.",
    metavar="K",
)
@click.option("--json", "as_json", is_flag=True, help="Print the document; an array where several persons are asked.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Write to this file, whole or not at all.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, readable=False),
    help="Also write a page for the person: one file, to be read and printed.",
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
    """Tell a person what is held about them (GDPR Art. 15): their rows, every row derived from them in every
    run that is held, and what they only influenced; why, for whom, how long.

    Personal data is shown as it is, to be handed to the person; of rows that include others only what concerns
    all. The answer is logged before it is given. Each person gets a document of their own. Spark is not started,
    unless the lineage of a run is still to be finished.

    \b
    Example:
      smoke-lineage audit access --subject customer=42 --html answer.html --request 2026-117
    """
    persons = [subjects] if one_person else [[each] for each in subjects]
    if html is not None and len(persons) > 1:
        raise click.UsageError("--html is a page for one person: ask one by one, or say --one-person.")
    if min_group < 2:
        raise click.UsageError("--min-group is of two persons at least.")
    from lineage_cli.sink import open_sink

    out = file_or_none(out)
    documents = []
    with closing(options.open_home(home, catalog)) as opened:
        for person in persons:
            answer = opened.audit.access(person, case=case, min_group=min_group)
            documents.append(answer.document)
            for note in answer.notes:
                tell(f"note: {note}")
    if html is not None:
        from lineage_cli.access_page import access_page

        with open_sink(html) as sink:
            sink.write_text(access_page(documents[0]))
        tell(f"wrote {html}")
    if html is None or as_json or out is not None:
        with open_sink(out) as sink:
            sink.write_text(_text(documents, as_json=as_json or (out is not None and out.suffix == ".json")))


def _text(documents: Sequence[dict[str, Any]], *, as_json: bool) -> str:
    if as_json:
        from lineage_cli.values import json_document

        body = documents[0] if len(documents) == 1 else list(documents)
        return json.dumps(json_document(body), ensure_ascii=False, indent=2) + "\n"
    from lineage_cli.access_text import access_text

    return "\n".join(access_text(each) for each in documents)
