"""Options of the verbs of `audit` that serve a case: which one, and who is at work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def actor_option(function: F) -> F:
    """`--actor`: the name that the log gets beside the user of the operating system."""
    return click.option(
        "--actor",
        metavar="NAME",
        help="Who does this, for the log, beside the user of the operating system. [default: $SMOKE_ACTOR]",
    )(function)


def received_option(function: F) -> F:
    """`--received`, as a datetime."""
    return click.option(
        "--received",
        type=click.DateTime(["%Y-%m-%d"]),
        metavar="DATE",
        help="The day the request came: it is due a month later. [default: today]",
    )(function)


def verified_by_option(function: F) -> F:
    """`--verified-by`."""
    return click.option("--verified-by", metavar="NAME", help="Who made sure that the person is who they say.")(
        function
    )


def case_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--request`, `--received`, `--verified-by`, `--actor`; the verb gets one argument `case`, a `CaseOptions`."""

    @click.option("--request", metavar="REF", help="Reference of the person's request; opens its case.")
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
    """`--four-eyes`, of the verbs that plan."""
    return click.option(
        "--four-eyes", is_flag=True, help="Another actor has to approve the plan before it can be applied."
    )(function)
