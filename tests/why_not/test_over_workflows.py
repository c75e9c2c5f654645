"""What-if and why-not over workflows: the same as in one workflow that has all the steps."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError

ORDERS = {
    "id": list(range(12)),
    "c": ["a", "a", "a", "b", "b", "c", "c", "c", "c", "d", "e", "e"],
    "x": [5, -1, 7, 2, 3, 1, 1, 9, -4, 8, -2, -3],
}
PEOPLE = {"c": ["a", "b", "c", "d", "e"], "name": ["Ada", "Bo", "Cy", "Di", "Ed"]}
A = """
  - {name: paid, op: filter, input: orders, where: x > 0}
  - {name: per, op: aggregate, input: paid, by: [c], measures: {n: count(*), total: sum(x)}, having: n > 1}
"""
B = """
  - {name: named, op: join, left: per, right: people, using: [c]}
  - {name: rich, op: filter, input: named, where: total >= 6}
"""
C = """
  - {name: theirs, op: join, left: orders, right: rich, using: [c], how: semi}
  - {name: final, op: aggregate, input: theirs, by: [c], measures: {all_of_them: count(*)}}
  - {name: small, op: join, left: paid, right: rich, using: [c], how: anti}
"""
# The third renames a column of the second, reads the first's output too, and a file that the first reads.
FLOWS = {
    "a": f"sources: {{orders: {{path: orders.parquet}}}}\nsteps:{A}outputs: {{paid: , per: }}\n",
    "b": "sources: {per: {output: a.per, rename: {total: sum_of_all}}, people: {path: people.parquet}}\n"
    f"steps:{B.replace('total', 'sum_of_all')}outputs: {{rich: }}\n",
    "c": "sources: {paid: {output: a.paid}, rich: {output: b.rich}, orders: {path: orders.parquet}}\n"
    f"steps:{C}outputs: {{final: , small: }}\n",
    # The same files, read in another way and under another name.
    "d": "sources: {paid: {output: a.paid}, rich: {output: b.rich}, orders: {path: orders.parquet, rename: {x: y}}, "
    f"again: {{path: 'ord*.parquet'}}}}\nsteps:{C}  - {{name: alone, op: join, left: again, right: orders, using: [id], "
    "how: anti}\noutputs: {final: , small: , alone: }\n",
    "whole": "sources: {orders: {path: orders.parquet}, people: {path: people.parquet}}\n"
    f"steps:{A}{B}{C}outputs: {{final: , small: }}\n",
}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("over")
    pq.write_table(pa.table(ORDERS), folder / "orders.parquet")
    pq.write_table(pa.table(PEOPLE), folder / "people.parquet")
    with Home.open(folder / "home") as opened:
        for name, text in FLOWS.items():
            (folder / f"{name}.yml").write_text(f"version: 1\nname: {name}\n{text}")
            opened.run(folder / f"{name}.yml")
        yield opened


def changes(home: Home, source: str, output: str, **start) -> list[tuple]:
    return shown(home.what_if(without=source, on=output, **start).to_pylist())


def shown(rows: list[dict]) -> list[tuple]:
    return sorted(tuple(str(value) for name, value in row.items() if name != "_rid") for row in rows)


@pytest.mark.parametrize("rids", [[0], [0, 2], [3, 4], [7], [9], [1, 8, 10], list(range(12))])
def test_what_if_goes_on_over_workflows(home, rids):
    # The same rows, whoever reads them: the file is read by the first and by the third.
    over = home.what_if(without="a.orders", on=["c.final", "c.small"], rid=rids)
    whole = home.what_if(without="whole.orders", on=["whole.final", "whole.small"], rid=rids)
    assert len(over.parts) == 2
    for one, other in zip(over.parts, whole.parts, strict=True):
        assert shown(one.arrow().to_pylist()) == shown(other.arrow().to_pylist())


@pytest.mark.parametrize("rids", [[0, 2], [7]])
def test_what_if_leaves_rows_out_wherever_their_files_are_read(home, rids):
    assert changes(home, "a.orders", "d.final", rid=rids) == changes(home, "whole.orders", "whole.final", rid=rids)
    assert changes(home, "d.orders", "d.alone", rid=rids) == [], "no row is there without itself"
    (note,) = [each for each in home.what_if(without="d.orders", rid=rids, on="d.alone").notes if "same files" in each]
    assert "d.again" in note


def test_what_if_from_the_middle_and_of_what_is_not_linked(home):
    assert changes(home, "b.people", "c.small", where="name = 'Ada'") == changes(
        home, "whole.people", "whole.small", where="name = 'Ada'"
    )
    answer = home.what_if(without="a.orders", rid=[0], on=["c.final", "b.rich"])
    assert [part.dataset for part in answer.parts] == ["c.final", "b.rich"]
    assert "over the workflows a, b, c" in answer.notes
    with pytest.raises(QuestionError, match=r"a\.paid is not made from 'b\.people'"):
        home.what_if(without="b.people", rid=0, on="a.paid")


def test_saved_queries_on_the_way_are_refused(home):
    home.query("SELECT c, sum(n) AS n FROM a.per GROUP BY c", save="saved")
    with pytest.raises(QuestionError, match=r"'saved' is a saved query.*\n.*a\.per"):
        home.what_if(without="a.orders", rid=0, on="saved.saved")
    with pytest.raises(QuestionError, match="'saved' is a saved query"):
        home.why_not("a.orders", to="saved.saved", all=True)


def lost(home: Home, source: str, output: str, **start) -> tuple:
    """What is told, without the names of workflows: reasons for want of a partner look no further than the run."""
    found = home.why_not(source, to=output, limit=100, rids=True, **start)
    steps = [
        (
            each.step.rpartition(".")[2],
            each.operation,
            each.input.rpartition(".")[2],
            each.rows_in,
            each.ended,
            each.lost,
            {rid for reason in each.reasons for rid in reason.rids},
        )
        for each in found.steps
    ]
    rows = [(row["rid"], row["step"].rpartition(".")[2]) for row in found.to_json()["rows"]]
    arrivals = [(each.rid, each.into, each.others) for each in found.arrivals]
    return found.asked, found.reached, found.peers, found.lost, sorted(steps, key=str), rows, arrivals


@pytest.mark.parametrize("start", [{"all": True}, {"rid": [1, 3, 4, 9]}, {"where": "c IN ('d', 'e')"}])
@pytest.mark.parametrize("output", ["final", "small"])
def test_why_not_goes_on_over_workflows(home, output, start):
    assert lost(home, "a.orders", f"c.{output}", **start) == lost(home, "whole.orders", f"whole.{output}", **start)


def test_why_not_tells_the_workflow_and_the_step(home):
    found = home.why_not("b.people", to="c.final", all=True, rids=True)
    assert (found.reached, found.lost) == (2, 3)
    assert {row["rid"]: row["step"] for row in found.to_json()["rows"]} == {1: "b.rich", 3: "b.named", 4: "b.named"}
    assert [note for note in found.notes if "of 'b'" in note and "of 'c'" in note]
    assert home.why_not("b.people", to="c.final", rid=0).spark is False, "the index knows"
    with pytest.raises(QuestionError, match=r"can be in 'c\.small': it only influences it by the absence"):
        home.why_not("b.people", to="c.small", all=True)


def test_the_versions_that_were_read_are_followed(home):
    """The first workflow runs again over other rows; the third has still read what it read."""
    before = [changes(home, "a.orders", "c.final", rid=[0]), lost(home, "a.orders", "c.final", all=True)]
    folder = home.layout.path.parent
    (folder / "other").mkdir()
    pq.write_table(pa.table(ORDERS).slice(0, 2), folder / "other" / "orders.parquet")
    (folder / "other" / "a.yml").write_text((folder / "a.yml").read_text())
    home.run(folder / "other" / "a.yml")
    assert [changes(home, "a.orders", "c.final", rid=[0]), lost(home, "a.orders", "c.final", all=True)] == before
    run = home.rows("a.paid").arrow().num_rows
    assert run == 1, "the latest run of the first has read other rows"
    (note,) = [each for each in home.what_if(without="a.orders", rid=[0], on="c.final").notes if "without" in each]
    assert "as run '" in note
