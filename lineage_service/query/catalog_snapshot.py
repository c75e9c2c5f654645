"""Runs a question on one snapshot of the catalog, regardless of concurrent commits."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")


class LineageFinished(Exception):
    """Signals that a question had to finish the lineage of a run, which its snapshot does not contain.

    This is not an error. The caller repeats the question on a new snapshot.
    """


class _SnapshotOwner(Protocol):
    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given: ...


Owner = TypeVar("Owner", bound=_SnapshotOwner)


def question(
    method: Callable[Concatenate[Owner, Arguments], Given],
) -> Callable[Concatenate[Owner, Arguments], Given]:
    """Decorates a method so that all its reads of the catalog see one snapshot."""

    @wraps(method)
    def run_in_snapshot(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Given:
        return owner.in_one_snapshot(lambda: method(owner, *args, **kwargs))

    return run_in_snapshot


Snapshots = Callable[[Callable[[], Any]], Any]
