"""What `plan-erasure`, `plan-rectification` and `apply` share: options, progress, and the printing of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineage_cli import options
from lineage_cli.options import as_mapping, session_options

if TYPE_CHECKING:
    from lineage_service.audit.facade import Audit


def progress_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--verbose`, `--quiet` and the Spark session; passed to the verb as `spark` and `progress_settings`."""

    @session_options
    @click.option("--verbose", is_flag=True, help="Print a line for each stage, also without a terminal.")
    @click.option("--quiet", is_flag=True, help="Do not show progress.")
    @wraps(function)
    def with_progress(
        *args: Any,
        master: str | None,
        remote: str | None,
        conf: tuple[tuple[str, str], ...],
        verbose: bool,
        quiet: bool,
        **given: Any,
    ) -> None:
        if verbose and quiet:
            raise click.UsageError("--verbose and --quiet contradict each other.")
        if master and remote:
            raise click.UsageError("--master and --remote contradict each other: say where Spark runs once.")
        from lineage_service.settings import IndexOptions

        function(
            *args,
            spark=IndexOptions(master, remote, as_mapping(conf)),
            progress_settings={"verbose": verbose, "quiet": quiet},
            **given,
        )

    return with_progress


def out_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--out", metavar="FILE", type=click.Path(path_type=Path, readable=False), help=f"Write the {what} to this file."
    )


def run_audit_task(
    home: str | None,
    catalog: str | None,
    progress_settings: Mapping[str, bool],
    work: Callable[[Audit, Any], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """Opens the home, runs `work` with a progress line, and returns its document."""
    from lineage_cli.progress import progress_line, sigterm_as_interrupt

    with (
        sigterm_as_interrupt(),
        closing(options.open_home(home, catalog)) as opened,
        progress_line(**progress_settings) as progress,
    ):
        return work(opened.audit, progress)


def print_document(document: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    from lineage_cli.output_stream import print_text
    from lineage_service.render.json.documents import sealed_document

    print_text(sealed_document(document) if as_json else "\n".join(lines))
