"""Options of the audit verbs that name a case, and the person who works on it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def actor_option(function: F) -> F:
    """`--actor`: a name that is logged in addition to the operating system user."""
    return click.option(
        "--actor",
        metavar="NAME",
        help="Your name for the log, in addition to the operating system user. [default: $SMOKE_ACTOR]",
    )(function)


def received_option(function: F) -> F:
    """`--received`, as a datetime."""
    return click.option(
        "--received",
        type=click.DateTime(["%Y-%m-%d"]),
        metavar="DATE",
        help="Day on which the request was received; it is due a month later. [default: today]",
    )(function)


def verified_by_option(function: F) -> F:
    """`--verified-by`."""
    return click.option("--verified-by", metavar="NAME", help="Who verified the identity of the person.")(function)


def case_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--request`, `--received`, `--verified-by`, `--actor`; the verb gets them as one `case`, a `CaseOptions`."""

    @click.option("--request", metavar="REF", help="Reference of the person's request. Opens a case for it.")
    @received_option
    @verified_by_option
    @actor_option
    @wraps(function)
    def with_case(
        *args: Any,
        request: str | None,
        received: datetime | None,
        verified_by: str | None,
        actor: str | None,
        **options: Any,
    ) -> None:
        if request is None and (received is not None or verified_by is not None):
            raise click.UsageError("--received and --verified-by belong to a case: give --request REF.")
        from lineage_service.audit.cases.case_lifecycle import CaseOptions

        day = None if received is None else received.date()
        function(*args, case=CaseOptions(request, day, verified_by, actor), **options)

    return with_case


def four_eyes_option(function: F) -> F:
    """`--four-eyes`, for the verbs that make a plan."""
    return click.option(
        "--four-eyes", is_flag=True, help="Somebody else must approve the plan before it can be applied."
    )(function)
