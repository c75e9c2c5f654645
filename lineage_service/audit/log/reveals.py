"""Logs the personal data that a question reveals, before the answer is returned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from lineage_service.query.masks import Masks
from lineage_service.query.open_home import OpenHome

Given = TypeVar("Given")
Arguments = ParamSpec("Arguments")


class _HasOpenHome(Protocol):
    _open: OpenHome


Owner = TypeVar("Owner", bound=_HasOpenHome)
Question = Callable[Concatenate[Owner, Arguments], Given]


def logs_reveals(verb: str) -> Callable[[Question[Owner, Arguments, Given]], Question[Owner, Arguments, Given]]:
    """Decorates a question: what it reveals is logged under the name of the verb before the answer is returned.

    The notes of the answer name masked columns and problems with the log.
    """

    def decorate(method: Question[Owner, Arguments, Given]) -> Question[Owner, Arguments, Given]:
        @wraps(method)
        def ask(owner: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Given:
            with log_reveals(owner._open, verb) as masks:
                found = method(owner, *args, **kwargs)
            answered: Given = _with_notes(found, masks.notes)
            return answered

        return ask

    return decorate


@contextmanager
def log_reveals(home: OpenHome, verb: str) -> Iterator[Masks]:
    """Logs what the question inside the block reveals, even if it fails, because an error discloses something too. If
    the log cannot be written, there is no answer.
    """
    masks = home.questions.masks
    masks.start()
    try:
        with home.questions.session.within():  # one time limit for everything that a question evaluates
            yield masks
    finally:
        log_revealed(home, verb)


def log_revealed(home: OpenHome, verb: str) -> None:
    """Logs what was revealed since the last call."""
    from lineage_service.audit.log.log_transactions import log_reveal

    if revealed := home.questions.masks.take_revealed():
        home.questions.masks.note_logged(log_reveal(home, verb, revealed))


def _with_notes(answer: Any, notes: list[str]) -> Any:
    if not isinstance(answer.notes, tuple):
        answer.notes += notes
        return answer
    return replace(answer, notes=(*answer.notes, *notes))
