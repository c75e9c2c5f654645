"""An erasure over a catalog on PostgreSQL: one switch, tables written anew, and nothing of the person in their files."""

from functools import partial

import psycopg
import pytest
from lineage_catalog.engine import connect
from lineage_catalog.models import metadata

from lineage_service.audit.erasure import plan_application as applying
from lineage_service.errors import StoreError
from lineage_service.store import home_store
from tests.support.erasure_shop import GONE, Shop, person, values

NAME = str(person(GONE)["name"])
ASIDE = f"SELECT city FROM first.large WHERE name <> '{NAME}'"


def files_of_tables(url: str) -> bytes:
    """The bytes of every table, as the server keeps them; one that was rewritten lies elsewhere afterwards."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        found = b""
        for table in metadata.sorted_tables:
            for place in (
                f"'{table.name}'::regclass",
                f"(SELECT reltoastrelid FROM pg_class WHERE relname = '{table.name}')",
            ):
                path = connection.execute(f"SELECT pg_relation_filepath({place})").fetchone()
                if path is not None and path[0] is not None:
                    raw = connection.execute("SELECT pg_read_binary_file(%s)", [path[0]]).fetchone()
                    found += b"" if raw is None else bytes(raw[0])
        return found


def test_switched_written_anew_and_verified(spark, postgresql_url, tmp_path, monkeypatch):
    shop = Shop(tmp_path / "live", catalog=postgresql_url).run()
    other = shop.open()  # somebody else who asks now and then is not in the way
    other.query(ASIDE, save="aside", reveal=True)
    shop.planned()
    assert NAME.encode() in files_of_tables(postgresql_url)
    home = shop.open()

    def fails(_: object) -> None:
        raise StoreError("the server went away")

    with monkeypatch.context() as patched, pytest.raises(StoreError):
        patched.setattr(applying, "vacuum", fails)
        home.audit.apply(shop.plan, out=shop.certificate)
    assert shop.state() == "switched"
    other.runs()
    home.audit.apply(shop.plan, out=shop.certificate)
    assert shop.state() == "done"
    verdict = home.audit.verify(shop.certificate, values=values(GONE))
    assert verdict.holds, verdict.to_json()
    assert any("pages of the database server" in each for each in verdict.not_covered)
    assert home.audit.verify_log().ok
    left = files_of_tables(postgresql_url)
    assert not [value for value in values(GONE) if value.encode() in left]
    assert not shop.left()
    fresh = Shop(tmp_path / "fresh", without=(GONE,)).run()
    found = shop.rows()
    assert len(found.pop("aside.aside")) == 31
    assert (found, shop.published()) == (fresh.rows(), fresh.published())
    home.close()
    other.close()


def test_a_table_that_somebody_holds_is_waited_for_and_then_told(spark, postgresql_url, tmp_path, monkeypatch):
    shop = Shop(tmp_path / "live", catalog=postgresql_url).run().planned()
    home = shop.open()
    sweep = applying.sweep
    reader = psycopg.connect(postgresql_url)

    def then_read(*given, **named):
        reader.execute("SELECT count(*) FROM runs")
        return sweep(*given, **named)

    with monkeypatch.context() as patched, pytest.raises(StoreError, match="could not be rewritten"):
        patched.setattr(applying, "sweep", then_read)
        patched.setattr(home_store, "connect", partial(connect, wait=0.5))
        home.audit.apply(shop.plan, out=shop.certificate)
    assert shop.state() == "switched"
    reader.close()
    home.audit.apply(shop.plan, out=shop.certificate)
    assert shop.state() == "done"
    assert home.audit.verify(shop.certificate, values=values(GONE)).holds
    home.close()
