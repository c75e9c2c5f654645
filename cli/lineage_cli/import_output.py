"""Options and output that the verbs of `import` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.messages import tell
from lineage_cli.options import Assignment, file_or_none, unused_home_options

if TYPE_CHECKING:
    from lineage_service.importers.assembly import ImportedWorkflow
    from lineage_service.importers.foreign_project import ForeignProject, Omission
    from lineage_service.importers.imported_file import ImportedFile

_NAMES = 8  # so many names are shown of those that are left out for one reason


def import_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--source`, `--out`, `--force`, `--json`."""
    for option in (
        unused_home_options,
        click.option("--json", "as_json", is_flag=True, help="Print a report as one JSON object."),
        click.option("--force", is_flag=True, help="Overwrite FILE if it exists."),
        click.option(
            "--out",
            metavar="FILE",
            type=click.Path(path_type=Path, readable=False),
            help="Write the workflow to this file. [default: standard output]",
        ),
        click.option(
            "--source",
            "sources",
            type=Assignment(),
            multiple=True,
            metavar="NAME=PATH",
            help="Path of a table that the project does not build: a file, folder or glob; repeatable.",
        ),
    ):
        function = option(function)
    return function


def write_import(
    read: Callable[[], ForeignProject],
    sources: Sequence[tuple[str, str]],
    out: Path | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Imports a project, writes the workflow and reports what was not imported. The workflow is written even if
    something keeps it from running; that is raised as a WorkflowError afterwards.
    """
    from lineage_cli.output_stream import open_output
    from lineage_service.errors import WorkflowError
    from lineage_service.importers.imported_file import import_project
    from lineage_service.render.json.documents import import_document

    out = file_or_none(out)
    if out is not None:
        _refuse_existing(out, force=force)
    imported = import_project(read, sources, out)
    if out is not None:
        _write_query_files(imported.query_files, out.parent, force=force)
    if out is not None or not as_json:
        with open_output(out) as stream:
            stream.write_text(imported.text)
    if as_json:
        with open_output() as stream:
            stream.write_text(import_document(imported))
    _report(imported)
    if imported.errors:
        raise WorkflowError(imported.errors)


def _refuse_existing(out: Path, *, force: bool) -> None:
    from lineage_service.errors import LineageError
    from lineage_service.store.out_file import check_out_file

    target, is_device = check_out_file(out)
    if target.exists() and not is_device and not force:
        raise LineageError(f"'{out}' exists already, and was not changed", hint="--force overwrites it")


def _write_query_files(texts: Mapping[str, str], folder: Path, *, force: bool) -> None:
    """Writes the queries of a workflow that would be too large with them."""
    from lineage_cli.output_stream import open_output
    from lineage_service.errors import LineageError

    folders = {folder / Path(path).parent for path in texts}
    for each in folders:
        if each.exists() and not (force and each.is_dir()):
            raise LineageError(f"'{each}' exists already, and was not changed", hint="--force writes into the folder")
        each.mkdir(exist_ok=True)
    for path, text in texts.items():
        with open_output(folder / path) as stream:
            stream.write_text(text)


def _report(imported: ImportedFile) -> None:
    for line in _report_lines(imported.workflow):
        tell(line)
    for warning in imported.warnings:
        tell(str(warning))
    if imported.file is not None:
        flow = imported.workflow
        parts = ((len(flow.steps), "step"), (len(flow.sources), "source"), (len(flow.outputs), "output"))
        counts = ", ".join(_counted(number, what) for number, what in parts)
        state = f"; it does not run yet: {_counted(len(imported.errors), 'problem')}" if imported.errors else ""
        tell(f"written: {imported.file} ({counts}){state}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _report_lines(flow: ImportedWorkflow) -> Iterator[str]:
    for (what, reason), names in omissions_by_reason(flow.omissions):
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        yield f"not imported: {what} {', '.join(names[:_NAMES])}{more}: {reason}"
    for each in flow.renamed:
        yield f"note: {each.what} is called {each.name}"
    for warning in flow.warnings:
        yield f"warning: {warning}"


def omissions_by_reason(omissions: Sequence[Omission]) -> list[tuple[tuple[str, str], list[str]]]:
    """Names by what they are and why they are left out."""

    def key(each: Any) -> tuple[str, str]:
        return each.what, each.reason

    order = {key(each): index for index, each in reversed(list(enumerate(omissions)))}
    ordered = sorted(omissions, key=lambda each: order[key(each)])
    return [(found, [each.name for each in group]) for found, group in groupby(ordered, key)]
