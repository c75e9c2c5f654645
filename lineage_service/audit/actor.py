"""Who does it: the user that the operating system knows, and the name that was claimed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lineage_service.errors import LineageError

VARIABLE = "SMOKE_ACTOR"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Actor:
    """`user` is what the operating system says, `name` is only a claim (`--actor`, else SMOKE_ACTOR)."""

    user: str
    name: str | None = None

    def is_another_than(self, other: Actor) -> bool:
        """Whether these are two people, as far as can be told.

        The users must differ: a claimed name is typed by whoever likes. And where both claim a name, the names must
        differ: one person may have two accounts.
        """
        return self.user != other.user and (self.name is None or self.name != other.name)

    def __str__(self) -> str:
        return self.user if self.name is None else f"{self.name} ({self.user})"


def current_actor(claimed: str | None = None) -> Actor:
    """Who is at work now."""
    name = claimed if claimed is not None else os.environ.get(VARIABLE) or None
    return Actor(_user(), None if name is None else require_printable(name, "the name of an actor"))


def require_printable(text: str, what: str, longest: int = LONGEST) -> str:
    """Text that log and terminal can hold: some, on one line, not endless. LineageError names `what` otherwise."""
    text = text.strip()
    if not text:
        raise LineageError(f"{what} is empty")
    if len(text) > longest:
        raise LineageError(f"{what} is longer than {longest} characters")
    if not text.isprintable():  # also what is no Unicode at all: a terminal's bytes that could not be decoded
        raise LineageError(f"{what} holds characters that cannot be printed")
    return text


def _user() -> str:
    """By the user's id: the environment (USER, LOGNAME) says what one wants it to say."""
    import pwd

    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # in a container, often
        return str(uid)
