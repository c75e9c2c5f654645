"""Why-not and what-if where rows are known by several names: what is lost agrees with what lineage reaches, whichever
workflow, run or source has read the rows."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError

K = [0, 1, 1, 3, 3, 3]
FLOWS = {
    "a": """sources: {src: {path: src.parquet}}
steps:
  - {name: big, op: filter, input: src, where: id <> 5}
  - {name: tot, op: aggregate, input: big, by: [k], measures: {n: sum(v)}}
outputs: {tot: {}, big: {}}
""",
    # The file under two names, one of them of another workflow; `two` reads an output twice.
    "b": """sources: {raw: {path: src.parquet, rename: {v: value}}, tot: {output: a.tot}, again: {path: "sr*.parquet"}}
steps:
  - {name: some, op: filter, input: raw, where: id = 3}
  - {name: j, op: join, left: some, right: tot, using: [k]}
  - {name: alone, op: project, input: tot, columns: [k, n]}
  - {name: one, op: filter, input: raw, where: id = 1}
  - {name: self, op: join, left: one, right: again, using: [k], how: semi}
  - {name: others, op: join, left: tot, right: raw, on: left.k = right.id, how: anti}
  - {name: own, op: filter, input: raw, where: id = 0}
outputs: {j: {}, alone: {}, self: {}, others: {}, own: {}}
""",
    "c": """sources: {j: {output: b.j}, big: {output: a.big}}
steps: [{name: g, op: join, left: big, right: j, using: [id]}, {name: keys, op: project, input: g, columns: [id]}]
outputs: {keys: {}}
""",
    "off": """sources: {raw: {path: src.parquet}, again: {path: "sr*.parquet"}}
steps:
  - {name: one, op: filter, input: raw, where: id = 1}
  - {name: o, op: join, left: one, right: again, using: [k], how: semi}
outputs: {o: {}}
lineage: {capture: "off"}
""",
    "pruned": """sources: {raw: {path: src.parquet}, tot: {output: a.tot}}
steps:
  - {name: some, op: filter, input: raw, where: id = 3}
  - {name: j, op: join, left: some, right: tot, using: [k]}
outputs: {j: {}}
lineage: {workload: [{name: q, backward: j, to: raw}]}
""",
    "days": """sources: {every: {path: "day*.csv", options: {header: true}, schema: "id BIGINT, v BIGINT"}}
steps: [{name: o, op: filter, input: every, where: v > 0}]
outputs: {o: {}}
""",
    "second": """sources: {day: {path: day2.csv, options: {header: true}, schema: "id BIGINT, v BIGINT"}}
steps: [{name: o, op: filter, input: day, where: v > 0}]
outputs: {o: {}}
""",
}


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    rows = {"id": range(6), "k": K, "v": range(6)}
    pq.write_table(
        pa.table({name: pa.array(list(of), pa.int64()) for name, of in rows.items()}), folder / "src.parquet"
    )
    for number in (1, 2, 3):
        lines = [f"{10 * number + row},{row - 1}" for row in range(3)]
        (folder / f"day{number}.csv").write_text("\n".join(["id,v", *lines, ""]))
    with Home.open(folder / "home") as opened:
        for name, text in FLOWS.items():
            (folder / f"{name}.yml").write_text(f"version: 1\nname: {name}\n{text}")
            opened.run(folder / f"{name}.yml")
        yield opened


def reached(home, source, to):
    return {row["rid"] for row in home.forward(source, all=True, to=to, pairs=True).to_pylist()}


def lost(home, source, to):
    """Rows that are lost, with the step that loses them."""
    answer = home.why_not(source, to=to, rids=True, all=True)
    rows = {row["rid"]: row["step"] for row in answer.to_json()["rows"]}
    assert len(rows) == answer.lost == answer.asked - answer.reached
    assert sum(step.lost for step in answer.steps) == answer.lost
    return rows


@pytest.mark.parametrize(
    ("source", "to", "expected"),
    [
        ("b.raw", "b.j", {0: "b.j", 1: "b.j", 2: "b.j", 5: "b.some"}),  # over a run before
        ("b.again", "b.j", {0: "b.j", 1: "b.j", 2: "b.j", 5: "b.some"}),  # which is no input of it under that name
        ("b.raw", "b.others", {0: "b.others", 1: "b.others", 2: "b.others", 3: "b.others", 4: "b.others", 5: "a.big"}),
        ("b.raw", "b.self", dict.fromkeys([0, 3, 4, 5], "self")),  # over another source of the run
        ("a.tot", "c.keys", {0: "b.j", 1: "b.j"}),  # from an output
    ],
)
def test_what_is_lost_is_what_lineage_does_not_reach(home, source, to, expected):
    everything = {row["_rid"] for row in home.rows(source).to_pylist()}
    assert everything - reached(home, source, to) == expected.keys()
    assert lost(home, source, to) == expected


def test_a_row_that_arrives_over_a_run_before_needs_no_evaluation(home):
    for source in ("a.src", "b.raw", "b.again", "off.raw"):
        answer = home.why_not(source, to="b.j", rid=4)
        assert (answer.reached, answer.lost, answer.spark) == (1, 0, False), source
        (arrival,) = answer.arrivals
        assert (arrival.into, arrival.others) == ((0,), 1), "rows 3 and 4, each of them one row under all its names"


def test_rows_that_no_index_tells_are_evaluated_on_all_ways(home):
    assert lost(home, "off.raw", "off.o") == dict.fromkeys([0, 3, 4, 5], "o")
    answer = home.why_not("pruned.raw", to="pruned.j", all=True)
    assert (answer.reached, answer.lost) == (2, 4)
    assert [note for note in answer.notes if "was pruned" in note]


def test_steps_of_an_output_that_others_do_not_reach_are_told_as_ever(home):
    answer = home.why_not("b.tot", to="b.j", all=True)
    assert [step.step for step in answer.steps] == ["j"], "no other run is on the way"


def test_rows_of_files_that_the_output_is_not_made_from(home):
    answer = home.why_not("days.every", to="second.o", all=True, rids=True)
    first, second = answer.steps
    assert (first.step, first.operation, first.lost) == ("second.day", "read", 6)
    assert [(each.kind, each.rids) for each in first.reasons] == [("not_read", (0, 1, 2, 6, 7, 8))]
    assert (second.step, second.rows_in, second.lost) == ("second.o", 3, 2)
    assert [row["rid"] for row in answer.to_json()["rows"]] == [0, 1, 2, 3, 4, 6, 7, 8]
    assert [(each.rid, each.into) for each in answer.arrivals] == [(5, (0,))]
    answer = home.why_not("days.every", to="second.o", rid=[0, 5], rids=True)
    assert (answer.reached, answer.lost, answer.spark) == (1, 1, False), "no step has to be evaluated for that"
    assert [row["rid"] for row in answer.to_json()["rows"]] == [0]
    assert home.why_not("second.day", to="days.o", rid=2).arrivals[0].into == (1,)


def test_what_if_leaves_out_the_rows_that_are_shared(home):
    answer = home.what_if(without="days.every", on="second.o", rid=[0, 5])
    assert [(row["change"], row["id"]) for row in answer.to_pylist()] == [("vanishes", 22)]
    assert [note for note in answer.notes if note.startswith("1 of them is in no file")]
    answer = home.what_if(without="second.day", on="days.o", where="id = 22")
    assert [(row["change"], row["id"], row["_rid"]) for row in answer.to_pylist()] == [("vanishes", 22, 1)]
    assert not [note for note in answer.notes if "in no file" in note]
    with pytest.raises(QuestionError, match=r"second\.o is not made from 'a\.src'"):
        home.what_if(without="a.src", on="second.o", rid=0)
