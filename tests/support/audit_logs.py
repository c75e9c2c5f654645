"""Homes with a log in them, for the tests of the log: entries as verbs write them, and hands that tamper with them."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lineage_catalog.engine import connect
from sqlalchemy import text

from lineage_service import Home
from lineage_service.audit.log.log_transactions import LogEntry, write_entry
from tests.support.empty_catalog import put_empty_catalog

PERSON = "0f" * 16


def home_with_entries(folder: Path, count: int, url: str | None = None) -> Home:
    if url is None and not (folder / "home").exists():
        put_empty_catalog(folder / "home" / "catalog.db")
    home = Home.open(folder / "home", catalog=url)
    for number in range(count):
        write_entry(home._open, entry(number))
    return home


def entry(number: int) -> LogEntry:
    return LogEntry(
        "access", f"R-{number}", {"customer": [PERSON]}, ["flow.a", "flow.b"], {"rows": number}, details={"runs": 1}
    )


@contextmanager
def database(home: Home):
    """The database itself, as somebody has it who goes round the program."""
    engine = connect(home._open.url)
    with engine.begin() as connection:
        yield lambda statement, **values: connection.execute(text(statement), values)
    engine.dispose()


def by_hand(home: Home, *statements: str, **values) -> None:
    with database(home) as execute:
        for statement in statements:
            execute(statement, **values)


def problems(home: Home, anchors: Path | None = None) -> list[str]:
    return [str(problem) for problem in home.audit.verify_log(anchors).problems]


def anchor_lines(home: Home) -> list[str]:
    return (home.layout.path / "audit.anchors").read_text().splitlines()


def write_anchors(home: Home, lines: list[str]) -> None:
    (home.layout.path / "audit.anchors").write_text("".join(f"{line}\n" for line in lines))


def taken(home: Home, number: int) -> dict:
    """An entry as it stands in the database."""
    with database(home) as execute:
        return dict(execute("SELECT * FROM audit_log WHERE number = :number", number=number).one()._mapping)


def put_back(home: Home, row: dict) -> None:
    """An entry that was taken before, in the place of what is there now."""
    names, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    by_hand(home, "DELETE FROM audit_log WHERE number = :number", number=row["number"])
    by_hand(home, f"INSERT INTO audit_log ({names}) VALUES ({values})", **row)


def in_days(days: int) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)
