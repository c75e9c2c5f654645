"""What users write runs under a hard ceiling of memory and time, whatever it is, and the next question works."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from lineage_service import Home
from lineage_service.bounded import reply
from lineage_service.bounded.limits import allowance, time_limit
from lineage_service.errors import QuestionError
from tests.support.limits_driver import EXPRESSIONS, KINDS, SECONDS
from tests.support.made_home import made_home
from tests.support.made_runs import Made, MadeHome
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

MEMORY = 200_000_000
PROCESS = 200_000_000  # what Python, DuckDB and Arrow take before they are asked anything, and more
ENDED = r"needs more memory than allowed \(200 MB\)|took longer than 0\.5 s|nested too deeply|too long \(|larger than"
LEVENSHTEIN = "levenshtein(repeat('ab', 500000 + k), repeat('ba', 500000)) = 7"  # nothing interrupts it


def limited(**more: str) -> dict[str, str]:
    return {**os.environ, "SMOKE_MEMORY": "200MB", "SMOKE_TIMEOUT": str(SECONDS), **more}


@pytest.fixture(scope="module")
def ended(tmp_path_factory) -> dict:
    """All of them, one after the other, in one home that is open."""
    folder = made_home(tmp_path_factory.mktemp("limits"))
    command = [sys.executable, "-m", "tests.support.limits_driver", str(folder)]
    root = str(ROOT)
    environment = limited(PYTHONPATH=os.pathsep.join([root, *filter(None, sys.path)]))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", KINDS)
def test_a_query_ends_with_an_error_of_ours(ended, name):
    found = ended["found"]["query"][name]
    assert re.match(f"QuestionError: .*({ENDED})", found) and "next question" not in found, found


@pytest.mark.parametrize("verb", ["where", "order", "top"])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_ends_with_an_error_of_ours(ended, verb, name):
    found = ended["found"][verb][name]
    assert re.match(f"QuestionError: .*({ENDED})", found) and "next question" not in found, found


def test_a_query_that_is_saved_has_the_same_limits(ended):
    saved = ended["found"]["save"]
    assert saved and all(found.startswith("QuestionError: ") for found in saved.values()), saved


def test_no_process_was_larger_than_its_ceiling_and_nothing_is_left(ended):
    assert ended["peak"] < allowance(MEMORY) + PROCESS
    assert ended["own"] < 600_000_000  # nor the one that asks
    assert ended["left"] == []


# --- the process ------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_MEMORY", "200MB")
    with Home.open(made_home(tmp_path)) as home:
        yield home


def end_the_process(home: Home) -> int:
    """A question that nothing but the end of its process stops."""
    before = home._open.questions.session.pid
    with pytest.raises(QuestionError, match=r"took longer than 0\.3 s"):
        home.query(f"SELECT * FROM a WHERE {LEVENSHTEIN}", timeout=0.3).arrow()
    assert before is not None and not is_running(before)
    return before


def is_running(pid: int) -> bool:
    with suppress(OSError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def test_one_process_answers_question_after_question(home):
    home.query("FROM a").arrow()
    first = home._open.questions.session.pid
    home.rows("a", where="k > 1", order_by=["k % 2", "-k"]).arrow()
    home.query("SELECT count(*) FROM backward('out', 'a', 'k = 1')").arrow()
    assert home._open.questions.session.pid == first
    home.close()  # the process is kept for the next home that is opened here, and knows nothing of this one
    with Home.open(home.layout.path) as again:
        assert len(again.rows("a", where="k > 1").arrow())
        assert again._open.questions.session.pid == first
        os.kill(first, signal.SIGKILL)
    with Home.open(home.layout.path) as again:
        assert len(again.rows("a", where="k > 1").arrow())
        assert again._open.questions.session.pid != first


def test_questions_without_expressions_need_no_process(home):
    home.rows("a", rid=1).arrow()
    home.rows("a", key={"k": 2}).arrow()
    home.backward("out", to="a", key={"k": 1}).arrow()
    assert home._open.questions.session.pid is None


def test_an_answer_that_nobody_has_read_yet_outlives_the_process(home):
    home.query("FROM a").arrow()
    begun = home.query("SELECT x, x % 7 AS y FROM range(300000) t(x)")
    end_the_process(home)
    assert begun.arrow().column("x").to_pylist() == list(range(300000))
    assert begun.arrow().num_rows == 300000  # asked again, of another process


def test_an_answer_that_was_not_read_in_time_is_never_taken_for_a_shorter_one(home):
    sql = "SELECT x FROM range(300000) t(x)"
    kept = home.query(sql)
    home._open.forget_questions()  # as where runs were taken out
    assert kept.arrow().num_rows == 300000
    lost = home.query(sql)
    home.close()
    with pytest.raises(QuestionError, match="not read before its home was closed"):
        lost.arrow()


def test_answers_are_kept_on_disk_where_they_are_many(home, monkeypatch):
    monkeypatch.setattr(reply, "HELD", 100_000)
    several = [home.query(f"SELECT x + {n} AS x FROM range(50000) t(x)") for n in range(3)]
    for n, answer in enumerate(several):
        assert answer.arrow().column("x").to_pylist() == list(range(n, 50000 + n))
    assert not list(home.layout.spill.glob("tmp*"))  # files without a name


def test_an_answer_that_goes_wrong_after_others_were_asked_says_so_when_it_is_read(home):
    begun = home.query("SELECT CASE WHEN x < 900000 THEN 1 ELSE CAST('x' || x AS INT) END AS y FROM range(990000) t(x)")
    assert home.query("SELECT count(*) AS n FROM a").to_pylist() == [{"n": 4}]
    with pytest.raises(QuestionError, match="cannot be converted"):
        begun.arrow()


def test_an_answer_that_nobody_wants_is_given_up(home):
    home.query("FROM a").arrow()
    first = home._open.questions.session.pid
    begun = home.query("SELECT x FROM range(10000000) t(x)", max_rows=10000000)
    del begun
    assert home.query("SELECT count(*) AS n FROM a").to_pylist() == [{"n": 4}]
    assert home._open.questions.session.pid == first


def test_tables_of_a_question_are_made_again_after_the_process_has_ended(tmp_path):
    rows = pa.table({"k": pa.array(range(2000), pa.int64())})
    made = MadeHome(tmp_path)
    pairs = [(i % 2, i) for i in range(2000)]
    made.run("flow", {"a": Made(rows, "source"), "out": Made(rows.slice(0, 2), hops={"a": pairs})})
    with made.home as home:
        answer = home.query("SELECT sum(k) AS s FROM backward('out', 'a', 'k = 1')")
        assert answer.to_pylist() == [{"s": 1000000}]
        end_the_process(home)
        assert answer.to_pylist() == [{"s": 1000000}]


def test_a_process_that_is_killed_is_told_as_want_of_memory(home):
    """So the system does it, where it runs short of memory."""
    home.query("FROM a").arrow()
    begun = home.query("SELECT x FROM range(100000000) t(x)", max_rows=100000000)
    os.kill(home._open.questions.session.pid, signal.SIGKILL)
    with pytest.raises(QuestionError, match=r"needs more memory than allowed \(200 MB\)"):
        begun.arrow()
    assert home.query("SELECT count(*) AS n FROM a").to_pylist() == [{"n": 4}]


def test_one_large_value_does_not_get_to_who_asks(home):
    with pytest.raises(QuestionError, match="one row of the answer is larger than 25 MB"):
        home.query("SELECT repeat('x', 60000000) AS x").arrow()
    assert home.query("SELECT length(repeat('x', 60000000)) AS n").to_pylist() == [{"n": 60000000}]


def test_a_large_answer_is_refused_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("SMOKE_MEMORY", "60MB")
    with (
        Home.open(made_home(tmp_path)) as home,
        pytest.raises(QuestionError, match="the answer is larger than 240 MB"),
    ):
        for _ in home.query("SELECT repeat('x', 1000) FROM range(1000000)").parts[0].batches():
            pass


def test_the_process_goes_with_the_one_that_started_it(tmp_path):
    folder = made_home(tmp_path)
    program = (
        "import sys; from lineage_service import Home; home = Home.open(sys.argv[1]); home.query('FROM a').arrow(); "
        "print(home._open.questions.session.pid, flush=True); "
        f'home.query("SELECT * FROM a WHERE {LEVENSHTEIN}", timeout=600).arrow()'
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    waited = 0
    while is_running(child) and waited < 600:
        time.sleep(0.1)
        waited += 1
    assert not is_running(child)
    assert not list((folder / "tmp").glob("*"))


def test_the_process_knows_no_secrets(home, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "tiger")
    home.query("FROM a").arrow()
    assert b"tiger" not in Path(f"/proc/{home._open.questions.session.pid}/environ").read_bytes()


def test_the_process_runs_no_code_of_the_folder_it_is_started_in(tmp_path, monkeypatch):
    folder = made_home(tmp_path)
    for name in ("json", "duckdb", "lineage_service"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    with Home.open(folder) as home:
        assert home.query("SELECT count(*) AS n FROM a").to_pylist() == [{"n": 4}]


@pytest.mark.parametrize(("given", "seconds"), [("5", 5), ("0.5", 0.5), ("", 60), ("-1", 60), ("inf", 60), ("x", 60)])
def test_the_usual_time_is_a_variable(monkeypatch, given, seconds):
    monkeypatch.setenv("SMOKE_TIMEOUT", given)
    assert time_limit() == seconds


# --- commands ---------------------------------------------------------------------------------------------------------

COMMANDS = [
    (["query", "SELECT generate_series(1, 2000000000)"], "needs more memory than allowed (200 MB)", "SMOKE_MEMORY=800MB"),
    (["query", f"SELECT * FROM a WHERE {LEVENSHTEIN}", "--timeout", "0.3"], "took longer than 0.3 s", "--timeout"),
    (["rows", "a", "--where", LEVENSHTEIN], "took longer than 0.5 s", "SMOKE_TIMEOUT="),
    (["rows", "a", "--order-by", "repeat('x', 2000000000 + k)"], "needs more memory", "SMOKE_MEMORY=800MB"),
    (["trace", "a", "--where", "length(repeat('x', 2000000000)) = k"], "needs more memory", "SMOKE_MEMORY=800MB"),
    (["backward", "out", "--all", "--to", "a", "--top", "1", "--by", LEVENSHTEIN], "took longer", "SMOKE_TIMEOUT="),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message", "hint"), COMMANDS, ids=[each[0][0] + each[0][-2] for each in COMMANDS]
)
def test_a_command_ends_with_a_line_and_a_hint(tmp_path, arguments, message, hint):
    folder = made_home(tmp_path)
    command = [sys.executable, "-m", "lineage_cli.main", *arguments, "--home", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=limited(), check=False)
    assert done.returncode == 1 and done.stdout == ""
    error, second = done.stderr.splitlines()
    assert error.startswith("error: ") and message in error and second.startswith("  hint: ") and hint in second
    assert not list((folder / "tmp").glob("*"))
