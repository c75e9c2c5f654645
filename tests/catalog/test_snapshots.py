"""Every question reads one state of the catalog: somebody else commits, or takes runs out, before each of its reads."""

import itertools
import shutil
from contextlib import contextmanager

import pyarrow as pa
import pytest
from lineage_catalog import models
from lineage_catalog.engine import connect
from lineage_catalog.reader import CatalogReader
from lineage_catalog.writer import clear_runs, expire_runs
from sqlalchemy import delete, event

from lineage_service import Home
from lineage_service.doctor.examination import examine
from lineage_service.errors import LineageError
from lineage_service.store.checksums import forget
from lineage_service.store.home_key import home_key
from lineage_service.store.layout import HomeLayout
from tests.support.made_runs import Made, MadeHome
from tests.support.sealing import seal_anew

pytestmark = pytest.mark.long

PEOPLE = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
SUBJECT = {"subject": {"person": "id"}, "pii": ["name"]}
SAME = [(n, n) for n in range(3)]
TO_READ = "totals"


class SharedHome(MadeHome):
    """A home whose catalog is anywhere."""

    def __init__(self, folder, url):
        super().__init__(folder)
        if not url.startswith("sqlite"):
            (folder / "catalog.db").unlink()
            self.url = url

    @property
    def home(self):
        return Home.open(self.folder, catalog=self.url)

    def shop(self):
        """Totals of persons, once more with every run."""
        people = Made(PEOPLE, "source", SUBJECT)
        totals = Made(pa.table({"id": [1, 2, 3], "total": [11, 7, 8]}), hops={"people": SAME})
        return self.run("shop", {"people": people, TO_READ: totals}, spec={"sources": {"people": {}}})

    def report(self, shop):
        """A workflow that reads what a run of the shop has made."""
        read = Made(self.versions[shop, TO_READ], "source")
        made = Made(pa.table({"total": [26]}), hops={"read": [(0, n) for n in range(3)]})
        return self.run("report", {"read": read, "sum": made}, spec={"sources": {"read": {}}})

    def writing(self):
        return connect(self.url)

    def count_from(self, number):
        self._numbers = itertools.count(number)

    def take_out(self, *run_ids):
        """As if they had never been there."""
        engine = self.writing()
        with engine.execution_options(writing=True).begin() as connection:
            clear_runs(connection, run_ids)
            connection.execute(delete(models.runs).where(models.runs.c.id.in_(run_ids)))
            seal_anew(connection)
        engine.dispose()

    def expire(self, run_id):
        """As retention does it: out of the catalog, then the files."""
        engine = self.writing()
        with engine.execution_options(writing=True).begin() as connection:
            expire_runs(connection, [run_id], {})
        engine.dispose()
        shutil.rmtree(self.folder / "runs" / run_id)


@pytest.fixture
def made(tmp_path, url):
    return filled(SharedHome(tmp_path / "home", url))


def filled(made):
    """Two runs of the shop, and a workflow that reads the second."""
    made.first, made.second = made.shop(), made.shop()
    made.report(made.second)
    home_key(HomeLayout(made.folder))
    return made


def access(home):
    document = home.audit.access(["person=1"]).document
    return {key: value for key, value in document.items() if key != "made_at"}


def answered(verb, *args, **options):
    def ask(home):
        answer = getattr(home, verb)(*args, **options)
        return answer.to_pylist(), answer.notes

    return ask


QUESTIONS = {
    "access": access,
    "record": lambda home: {k: v for k, v in home.audit.record().items() if k != "made_at"},
    "retention": lambda home: home.audit.retain(dry_run=True),
    "rows": answered("rows", TO_READ),
    "backward": answered("backward", "sum", rid=0, to="all", rids=True),
    "forward": answered("forward", "people", rid=0),
    "trace": lambda home: repr(home.trace(TO_READ, rid=0)),
    "diff": lambda home: repr(home.diff(TO_READ, key="id")),
    "query": answered("query", "SELECT count(*) AS n FROM totals"),
    "datasets": answered("datasets"),
    "columns": answered("columns", through=True),
    "runs": answered("runs"),
    "graph": lambda home: repr(home.graph()),
    "doctor": lambda home: [each for each in examine(home.layout.path, home._open.url).checks if each.name == "files"],
}


@contextmanager
def before_read(number, action):
    """Calls `action` once, before the `number`-th statement that any reader sends; tells whether it was called."""
    seen = {"statements": 0, "acting": False, "acted": False}

    def look(connection, *_):
        if seen["acting"] or seen["acted"] or connection.get_execution_options().get("writing"):
            return
        seen["statements"] += 1
        if seen["statements"] == number:
            seen["acting"] = True
            action()
            seen["acting"], seen["acted"] = False, True

    opened = CatalogReader.__init__

    def listening(reader, engine):
        opened(reader, engine)
        event.listen(engine, "before_cursor_execute", look)

    CatalogReader.__init__ = listening
    try:
        yield seen
    finally:
        CatalogReader.__init__ = opened


SHARES = [pytest.param(False, id="some"), pytest.param(True, id="every", marks=pytest.mark.slow)]


def statements(made, question, every):
    """The statements of a question that something is done before: all, or four of them."""
    with before_read(None, None) as seen:
        asked(made, question)
    count = seen["statements"]
    assert count
    return range(1, count + 1) if every else sorted({2, count // 3, count // 2, count - 1} - {0})


def asked(made, question):
    forget()  # as in a new process: each time the same statements
    with made.home as home:
        return QUESTIONS[question](home)


@pytest.mark.parametrize("every", SHARES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_runs_that_are_committed_between_any_two_reads(made, question, every):
    """The answer is that of the catalog before the commits, or that of the one after."""
    begin, ids = asked(made, "runs"), []

    def commit():
        made.count_from(10)  # each time the same ids, so that there is one answer after them
        ids[:] = [made.shop(), made.report(made.second)]

    before = asked(made, question)
    commit()
    after = asked(made, question)
    for number in statements(made, question, every):
        made.take_out(*ids)
        with before_read(number, commit) as seen:
            found = asked(made, question)
        if not seen["acted"]:  # it has fewer reads without these runs
            break
        assert found in (before, after), f"committed before statement {number}"
    assert number > 1
    made.take_out(*ids)
    assert asked(made, "runs") == begin


@pytest.mark.parametrize("every", SHARES)
@pytest.mark.parametrize("question", ["access", "backward", "trace", "diff", "rows", "query"])
def test_a_run_that_expires_between_any_two_reads(tmp_path, question, every):
    """Its files are gone: the question is asked again on what there is, or says so."""
    base = filled(SharedHome(tmp_path / "base", "sqlite"))
    numbers = statements(base, question, every)
    assert len(numbers) >= 2
    for number in numbers:
        made = filled(SharedHome(tmp_path / str(number), "sqlite"))
        before = asked(made, question)
        with before_read(number, lambda made=made: made.expire(made.second)) as seen:
            found = asked_or_refused(made, question)
        assert seen["acted"]
        assert found in (before, asked_or_refused(made, question)), f"expired before statement {number}"


def asked_or_refused(made, question):
    try:
        return asked(made, question)
    except LineageError as error:
        return str(error)


def test_what_was_read_of_a_run_is_not_kept_when_it_expires(made):
    """A home that stays open sees what others have taken out."""
    with made.home as home:
        assert len(home.rows(f"{TO_READ}@{made.second}").to_pylist()) == 3
        made.expire(made.second)
        with pytest.raises(LineageError, match=made.second):
            home.rows(f"{TO_READ}@{made.second}").to_pylist()


def test_a_number_that_is_given_again_is_noticed(made):
    """A failed run is taken out, and the next one gets its place in the order."""
    with made.home as home:
        latest = made.shop()
        assert home.rows(TO_READ) is not None
        first = home._open.reader.stamp()
        made.take_out(latest)
        made.shop()
        assert home._open.reader.stamp() != first
        assert not home._open.reader.stamp().only_adds_to(first)


def test_nobody_waits_for_a_question(made):
    """Two questions are open, each with its own state; runs are committed meanwhile."""
    with made.home as one, made.home as two, one._open.reader.snapshot():
        before = [run.id for run in one._open.reader.runs()]
        third = made.shop()
        with two._open.reader.snapshot():
            assert two._open.reader.runs()[0].id == third
            made.shop()
            assert two._open.reader.runs()[0].id == third
        assert [run.id for run in one._open.reader.runs()] == before
