"""The verbs of `audit` as methods: `Home.open(path).audit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_catalog.engine import connect
from lineage_catalog.reader import CatalogReader
from sqlalchemy import Engine

from lineage_service.progress import Tell
from lineage_service.query.ask import Questions
from lineage_service.store.catalog import catalog_errors
from lineage_service.store.layout import HomeLayout

if TYPE_CHECKING:
    from lineage_service.audit.access import Access
    from lineage_service.audit.cases import CaseOptions
    from lineage_service.subjects.given import Given


@dataclass(frozen=True)
class Audit:
    """What a person's request needs of a home.

    `questions` gives the home's questions, `prepare` sees to it that the catalog is there and current, `forget` drops
    what was read of runs that are no longer what they were.
    """

    layout: HomeLayout
    url: str
    questions: Callable[[], Questions]
    prepare: Callable[[], None]
    forget: Callable[[], None]
    tell: Tell

    @property
    def ask(self) -> Questions:
        return self.questions()

    @property
    def reader(self) -> CatalogReader:
        return self.ask.reader

    @contextmanager
    def writing(self) -> Iterator[Engine]:
        """An engine to write the catalog with; what it answers is told with the home's path."""
        with catalog_errors(self.layout):
            engine = connect(self.url)
            try:
                yield engine
            finally:
                engine.dispose()

    # --- access, record of processing -------------------------------------------------------------------------

    def access(
        self,
        subjects: Given | Iterable[Given],
        *,
        case: CaseOptions | None = None,
        min_group: int | None = None,
    ) -> Access:
        """Everything held about one person and derived from it (GDPR Art. 15), as docs/access.md tells it.

        Several `subjects` are one person, known by several kinds. It is in the log before it is given.
        """
        from lineage_service.audit.access import MIN_GROUP, access
        from lineage_service.subjects.given import subjects_of

        return access(self, subjects_of(subjects), case, min_group=MIN_GROUP if min_group is None else min_group)
