"""The demo: its story is true of its data, and every command that it shows can be typed again in its folder."""

import shlex

import pytest
from lineage_cli.demo import data
from lineage_cli.demo.story import FLIGHTS, SHOP
from lineage_cli.main import main

from lineage_service import Home


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    return left.value.code


def test_the_whole_story(spark_as_shipped, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SMOKE_HOME", str(tmp_path / "somebody else's"))
    assert run("demo", "shown") == 0
    told = capfd.readouterr().out
    for scene in (*FLIGHTS, *SHOP):
        assert scene.words in told
        assert f"$ smoke-lineage {scene.command}\n" in told
    assert not (tmp_path / "somebody else's").exists()
    monkeypatch.delenv("SMOKE_HOME")
    with Home.open(tmp_path / "shown" / ".smoke") as home:
        # The story's numbers, counted anew.
        (january,) = home.rows("monthly", where="airline LIKE 'Hawaiian%' AND month = 1").to_pylist()
        assert january["delay"] == 54.4
        behind = home.backward("monthly", rid=january["_rid"], to="flights").to_pylist()
        assert {(row["carrier"], row["month"]) for row in behind} == {("HA", 1)}
        assert len(behind) == january["flights"] == 31
        assert max(row["dep_delay"] for row in behind) == 1301
        assert home.rows("flights").arrow().num_rows == 336_776
        (letter,) = home.rows("recipients", key={"customer_id": data.PERSON}).to_pylist()
        orders = home.backward("recipients", rid=letter["_rid"], to="orders", pairs=True, roles=True).to_pylist()
        own = {pair["rid"] for pair in orders if pair["role"] == "own"}
        theirs = home.rows("orders", key={"customer_id": data.PERSON}).to_pylist()
        assert own == {row["_rid"] for row in theirs}
    # A command of the story, typed again there.
    monkeypatch.chdir(tmp_path / "shown")
    assert run(*shlex.split(FLIGHTS[2].command)) == 0
    again = capfd.readouterr().out
    assert "1301" in again
    assert again in told


def test_where_the_demo_is_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert run("demo", "mine") == 1
    assert "the folder is not empty" in capsys.readouterr().err
    assert run("demo", "mine/letter.txt") == 1
    assert "a file is there" in capsys.readouterr().err
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_the_shop_is_the_same_each_time(tmp_path):
    for name in ("one", "two"):
        data.make_shop(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["customers.csv", "items.json", "orders.csv"]
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in files)
