"""The actor: the operating system's user, and a claimed name."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lineage_service.errors import LineageError

VARIABLE = "SMOKE_ACTOR"
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Actor:
    """`user` is the operating system's user. `name` is only a claim (`--actor`, otherwise SMOKE_ACTOR)."""

    user: str
    name: str | None = None

    def is_another_than(self, other: Actor) -> bool:
        """Whether these are two persons, as far as can be determined.

        The users must differ, because anyone can type any name. If both claim a name, the names must differ too,
        because one person may have two accounts.
        """
        return self.user != other.user and (self.name is None or self.name != other.name)

    def __str__(self) -> str:
        return self.user if self.name is None else f"{self.name} ({self.user})"


def current_actor(claimed: str | None = None) -> Actor:
    """The actor of this process."""
    name = claimed if claimed is not None else os.environ.get(VARIABLE) or None
    return Actor(_user(), None if name is None else require_printable(name, "the name of an actor"))


def require_printable(text: str, what: str, longest: int = LONGEST) -> str:
    """Checks that a text fits into a log entry and on a terminal: not empty, one line, limited length. Raises
    LineageError that names `what` otherwise.
    """
    text = text.strip()
    if not text:
        raise LineageError(f"{what} is empty")
    if len(text) > longest:
        raise LineageError(f"{what} is longer than {longest} characters")
    if not text.isprintable():  # includes invalid Unicode: bytes of a terminal that could not be decoded
        raise LineageError(f"{what} holds characters that cannot be printed")
    return text


def _user() -> str:
    """The user by user id. Environment variables (USER, LOGNAME) are not used, because anyone can set them."""
    import pwd

    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # common in containers
        return str(uid)
