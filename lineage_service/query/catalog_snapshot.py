"""Questions that read one state of the catalog, whatever others commit meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")


class LineageFinished(Exception):
    """No error: the lineage of a run was finished inside of a question, whose snapshot does not have it. The question
    is asked again."""


class _SnapshotOwner(Protocol):
    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given: ...


Owner = TypeVar("Owner", bound=_SnapshotOwner)


def question(
    method: Callable[Concatenate[Owner, Arguments], Given],
) -> Callable[Concatenate[Owner, Arguments], Given]:
    """A method that reads one state of the catalog from its first read to its last."""

    @wraps(method)
    def run_in_snapshot(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Given:
        return owner.in_one_snapshot(lambda: method(owner, *args, **kwargs))

    return run_in_snapshot


Snapshots = Callable[[Callable[[], Any]], Any]
