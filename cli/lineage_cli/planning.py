"""What the verbs that plan share: options, progress, and where the plan goes."""

from __future__ import annotations

import json
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
    """`--verbose`, `--quiet` and where Spark is; the verb gets `spark` and `telling`."""

    @session_options
    @click.option("--verbose", is_flag=True, help="A line for each stage; also without a terminal.")
    @click.option("--quiet", is_flag=True, help="No progress.")
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
            telling={"verbose": verbose, "quiet": quiet},
            **given,
        )

    return with_progress


def out_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--out", metavar="FILE", type=click.Path(path_type=Path, readable=False), help=f"Write the {what} to this file."
    )


def with_audit(
    home: str | None, catalog: str | None, telling: Mapping[str, bool], work: Callable[[Audit, Any], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """What a verb does, with its progress."""
    from lineage_cli.progress import progress_line, sigterm_as_interrupt

    with (
        sigterm_as_interrupt(),
        closing(options.open_home(home, catalog)) as opened,
        progress_line(**telling) as progress,
    ):
        return work(opened.audit, progress)


def print_document(document: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    from lineage_cli.sink import print_text

    print_text(json.dumps(document, ensure_ascii=False) if as_json else "\n".join(lines))
