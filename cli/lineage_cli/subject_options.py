"""Options that name persons: `--subject`, `--subjects`, `--max-subjects`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from lineage_cli.options import Count


def subject_options(function: Callable[..., None]) -> Callable[..., None]:
    """Passed to the verb as one argument `subjects`, without duplicates: at least one, at most --max-subjects."""

    @click.option(
        "--subject",
        "named",
        multiple=True,
        metavar="KIND=VALUE",
        help="The person, such as customer=42; repeatable. `-` reads such lines, or CSV, from standard input.",
    )
    @click.option(
        "--subjects",
        "file",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        help="CSV file of persons: columns kind and value, or one column named after a kind. `-` is standard input.",
    )
    @click.option("--max-subjects", type=Count(), default=100, show_default=True, help="Refuse more than N persons.")
    @wraps(function)
    def with_subjects(*args: Any, named: tuple[str, ...], file: Path | None, max_subjects: int, **options: Any) -> None:
        if not named and file is None:
            raise click.UsageError("Name the person: --subject KIND=VALUE, or --subjects FILE.")
        from lineage_service.subjects.subject_arguments import Subject, subjects_in, subjects_in_file, subjects_of

        found = [Subject.parse(text) for text in named if text != "-"]
        if "-" in named or str(file) == "-":
            found += subjects_in(sys.stdin, "standard input")
        if file is not None and str(file) != "-":
            found += subjects_in_file(file)
        function(*args, subjects=subjects_of(found, max_subjects), **options)

    return with_subjects
