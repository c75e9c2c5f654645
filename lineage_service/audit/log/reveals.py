"""Personal data that a question reveals: it is logged before the answer is given, or before a run is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lineage_catalog.records import Commit

from lineage_service.query.masks import Masks
from lineage_service.query.open_home import OpenHome


@contextmanager
def log_reveals(home: OpenHome, verb: str) -> Iterator[Masks]:
    """Around a question: what it reveals is logged before its answer is given, also where that is an error, which
    tells something too. Where it cannot be logged, there is no answer."""
    masks = home.questions.masks
    masks.start()
    try:
        with home.questions.session.within():  # one time for all that a question evaluates
            yield masks
    finally:
        _log_revealed(home, verb)


def commit_after_logging(home: OpenHome, verb: str) -> Callable[[Commit], None]:
    """Commits what begins to read now, once what it reveals is logged: a run that is there cannot be taken back."""
    erasures = home.reader.erasures()

    def commit(made: Commit) -> None:
        _log_revealed(home, verb)
        home.commit(made, erasures)

    return commit


def _log_revealed(home: OpenHome, verb: str) -> None:
    from lineage_service.audit.log.log_transactions import log_reveal

    if revealed := home.questions.masks.take_revealed():
        home.questions.masks.note_logged(log_reveal(home, verb, revealed))
