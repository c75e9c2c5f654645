"""A question of the home, from opening it to the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from lineage_cli import options
from lineage_cli.progress import waiting_line

if TYPE_CHECKING:
    from lineage_service.home import Home

T = TypeVar("T")


@contextlib.contextmanager
def ask_home(
    home: str | None, catalog: str | None, question: Callable[[Home], T], label: str = "looking up"
) -> Iterator[T]:
    """The answer; the home is open as long as it is read. A long wait shows, also one for a catalog that is locked."""
    with contextlib.ExitStack() as open_things:
        with waiting_line(label) as told:
            opened = open_things.enter_context(contextlib.closing(options.open_home(home, catalog)))
            if told is not None:
                opened.progress = told  # lineage that is not finished yet is finished first
            answer = question(opened)
        yield answer
