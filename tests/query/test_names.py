"""What a dataset's name means: a source that is another workflow's output under one name, names that are reserved."""

import pyarrow as pa
import pytest

from lineage_service.errors import NotFound, QuestionError
from tests.query.test_masking import call
from tests.support.made_runs import Made, MadeHome

ROWS = pa.table({"id": [1, 2, 3]})
ONE_TO_ONE = [(0, 0), (1, 1), (2, 2)]


@pytest.fixture
def made(tmp_path):
    return MadeHome(tmp_path / "home")


def chain(made: MadeHome, *, declared: str = "a.x") -> None:
    """`a` makes x from files, `b` reads it as x and makes y, `c` reads y."""
    run = made.run("a", {"files": Made(ROWS, "source"), "x": Made(ROWS, hops={"files": ONE_TO_ONE})})
    read = Made(made.versions[run, "x"], "source", {"output": declared})
    run = made.run("b", {"x": read, "y": Made(ROWS, hops={"x": ONE_TO_ONE})})
    read = Made(made.versions[run, "y"], "source", {"output": "b.y"})
    made.run("c", {"y": read, "z": Made(ROWS, hops={"y": ONE_TO_ONE})})


@pytest.mark.parametrize("declared", ["a.x", "x"])
def test_an_output_and_the_sources_that_read_it_under_its_name_are_one(made, declared):
    chain(made, declared=declared)
    with made.home as home:
        assert home._open.questions.find("x").full_name == "a.x"
        assert home._open.questions.find("y").full_name == "b.y"
        assert home._open.questions.find("b.x").full_name == "b.x"
        assert home.rows("x").count() == 3
        assert home.query("SELECT count(*) AS n FROM x").to_pylist() == [{"n": 3}]
        assert home.trace("x", rid=1).root.dataset == "a.x"
        assert home.forward("x", rid=1, to="z", rids=True).to_pylist() == [{"_rid": 1}]
        # Over two workflows: the output is meant, which has the same rows as what reads it.
        assert home.backward("z", rid=2, to="x", pairs=True).to_pylist() == [{"out_rid": 2, "rid": 2}]
        # In a run of its own the source is the one that is there.
        assert home.backward("b.y", rid=2, to="x", rids=True).to_pylist() == [{"_rid": 2}]
        assert [each["dataset"] for each in home.backward("z", rid=0).to_pylist()].count("a.x") == 1


def test_also_where_the_reader_has_not_seen_the_latest_run(made):
    chain(made)
    late = made.run("a", {"files": Made(ROWS, "source"), "x": Made(ROWS.slice(0, 2), hops={"files": ONE_TO_ONE[:2]})})
    with made.home as home:
        assert home._open.questions.find("x").run_id == late and home.rows("x").count() == 2
        assert home.rows("b.x").count() == 3


def test_unlike_datasets_of_one_name_stay_ambiguous(made):
    chain(made)
    made.run("d", {"x": Made(ROWS, "source")})
    made.run("e", {"x": Made(ROWS, "source", {"output": "c.z"})})
    with made.home as home:
        with pytest.raises(QuestionError, match=r"several workflows have a dataset 'x': a\.x, d\.x, e\.x"):
            home.rows("x")
        with pytest.raises(QuestionError, match="'x' means several datasets here"):
            made.run("f", {"p": Made(made.versions["0001a", "x"], "source", {"output": "a.x"}),
                           "x": Made(ROWS, "source"),
                           "w": Made(ROWS, hops={"x": ONE_TO_ONE, "p": ONE_TO_ONE})})  # fmt: skip
            made.run("g", {"w": Made(made.versions["0006f", "w"], "source", {"output": "f.w"}),
                           "v": Made(ROWS, hops={"w": ONE_TO_ONE})})  # fmt: skip
            home.backward("v", rid=0, to="x")


def test_a_source_whose_output_is_not_in_the_home(made):
    made.run("b", {"x": Made(ROWS, "source", {"output": "gone.x"})})
    with made.home as home:
        assert home._open.questions.find("x").full_name == "b.x"


def test_a_workflow_that_no_longer_has_the_dataset_does_not_count(made):
    made.run("a", {"x": Made(ROWS, "source")})
    made.run("a", {"other": Made(ROWS, "source")})
    with made.home as home:
        with pytest.raises(NotFound, match="of workflow 'a' has no dataset 'x'"):
            home.rows("x")
        made.run("b", {"x": Made(ROWS, "source")})
        assert home._open.questions.find("x").full_name == "b.x"


def test_a_dataset_called_all_of_an_older_home_answers_by_its_full_name(made, capsys):
    made.run("a", {"files": Made(ROWS, "source"), "all": Made(ROWS.slice(0, 1), hops={"files": [(0, 2)]}),
                   "x": Made(ROWS, hops={"files": ONE_TO_ONE})})  # fmt: skip
    with made.home as home:
        assert home.rows("all").count() == 1
        assert home.forward("files", rid=2, to="a.all", rids=True).to_pylist() == [{"_rid": 0}]
        assert {part.dataset for part in home.forward("files", rid=2, to="all").parts} == {"a.all", "a.x"}
        assert {part.dataset for part in home.forward("files", rid=2, to=["all", "x"]).parts} == {"a.all", "a.x"}
    code, out, _ = call(capsys, "forward", "files", "--rid", "2", "--to", "a.all", "--json", "--home", str(made.folder))
    assert (code, out) == (0, '[\n{"_rid": 0, "id": 1}\n]\n')


def test_no_query_is_saved_under_a_reserved_name(made):
    made.run("a", {"x": Made(ROWS, "source")})
    with made.home as home, pytest.raises(QuestionError, match="'--to all' means every dataset"):
        home.query("SELECT * FROM x", save="all")


@pytest.mark.parametrize(
    "options, note",
    [
        (["--to", "files", "--pairs"], "pairs are complete: --limit 1 has no effect"),
        (["--to", "files", "--count"], "a count is of all rows: --limit 1 has no effect"),
        ([], "counts are of all rows: --limit 1 has no effect"),
        (["--to", "files"], None),
        (["--to", "files", "--rids"], None),
    ],
)
def test_a_limit_without_effect_is_told(made, capsys, options, note):
    chain(made)
    asked = ["backward", "x", "--all", *options, "--home", str(made.folder)]
    code, limited, told = call(capsys, *asked, "--limit", "1")
    assert code == 0 and (
        [line for line in told.splitlines() if "--limit 1" in line] == ([f"note: {note}"] if note else [])
    )
    code, whole, told = call(capsys, *asked)
    assert "has no effect" not in told, "nobody has asked for a limit"
    assert (limited == whole) is (note is not None)


def test_a_limit_without_effect_is_told_to_python_too(made):
    chain(made)
    with made.home as home:
        assert home.backward("x", all=True, to="files", pairs=True, limit=1).notes == [
            "pairs are complete: --limit 1 has no effect"
        ]
        assert home.backward("x", all=True, to="files", pairs=True).notes == []
