"""Opens a home, asks it a question, and keeps it open while the answer is read."""

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
    """Yields the answer. A progress line is shown for a long wait, also one for a locked catalog."""
    with contextlib.ExitStack() as open_things:
        with waiting_line(label) as tell:
            opened = open_things.enter_context(contextlib.closing(options.open_home(home, catalog)))
            if tell is not None:
                opened.progress = tell  # incomplete lineage is completed first
            answer = question(opened)
        yield answer
