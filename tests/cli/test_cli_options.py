"""What the options mean, alone and together, and what a verb hands on to the service."""

from __future__ import annotations

from typing import Any

import pytest
from lineage_cli.options import split_names, split_terms

from tests.cli.conftest import Call
from tests.cli.fakes import FakeHome, answer


def home_with_rows() -> FakeHome:
    return FakeHome(answer({"_rid": [0]}))


def test_rows_defaults_to_all(call: Call) -> None:
    home = home_with_rows()
    call("rows revenue.totals@3f2a --home here --catalog sqlite:///x", home=home)
    assert home.opened_with == ("here", "sqlite:///x")
    assert home.closed
    assert home.asked == [
        (
            "rows",
            ("revenue.totals@3f2a",),
            {
                "rid": None,
                "key": None,
                "where": None,
                "all": True,
                "limit": None,
                "columns": None,
                "order_by": None,
                "reveal": False,
                "unchanged": False,
            },
        )
    ]


def test_start_rows_are_handed_on(call: Call) -> None:
    home = home_with_rows()
    call(["rows", "t", "--rid", "3", "--rid", "5", "--key", "a=b=c", "--key", "d=", "--where", "x > 1"], home=home)
    assert home.options["rid"] == [3, 5]
    assert home.options["key"] == [("a", "b=c"), ("d", "")]
    assert home.options["where"] == "x > 1"
    assert home.options["all"] is False


def test_rids_from_standard_input(call: Call) -> None:
    home = home_with_rows()
    assert call("forward orders --rid - --rid 9 --to totals", home=home, stdin=b"_rid\n1 2\n\n3\t4\r\n").code == 0
    assert list(home.options["rid"]) == [1, 2, 3, 4, 9]


def test_no_rids_on_standard_input_are_no_rows_and_not_all(call: Call) -> None:
    home = home_with_rows()
    assert call("rows totals --rid -", home=home).code == 0
    assert list(home.options["rid"]) == []
    assert home.options["all"] is False


@pytest.mark.parametrize(
    "bad", [b"1\nsecret\n", b"1\n-2", b"0\n9223372036854775808\n", b"1\n\xff\n", b"1\n1.5", b"1\n_rid"]
)
def test_a_bad_rid_on_standard_input_is_a_clear_error(call: Call, bad: bytes) -> None:
    result = call("rows totals --rid -", stdin=bad)
    assert result.code == 1
    assert result.err.startswith("error: standard input, line 2: not a row id\n  hint: ")
    assert "secret" not in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("backward totals --to orders", "--rid, --key, --where or --all"),
        ("forward orders --to totals", "--rid, --key, --where or --all"),
        ("backward totals --all --rid 3", "--all means every row"),
        ("rows totals --all --where x", "--all means every row"),
        ("rows totals --rid x", "whole number"),
        ("rows totals --rid -5", "whole number"),
        ("rows totals --key nothing", "'--key': expected COLUMN=VALUE"),
        ("rows totals --key =5", "'--key': expected COLUMN=VALUE"),
        ("diff totals --source-key items", "'--source-key': expected SOURCE=A,B"),
        ("rows totals --limit -1", "'--limit': expected a whole number, 0 or larger"),
        ("runs --limit x", "'--limit': expected a whole number, 0 or larger"),
        ("diff totals --rows 1.5", "'--rows': expected a whole number, 0 or larger"),
        ("trace totals --rid 0 --depth x", "'--depth': expected a whole number, 0 or larger"),
        ("trace totals --rid 0 --rows 99999999999999999999", "'--rows': expected a whole number"),
        ("trace totals --rid abc", "'--rid': a row id is a whole number, 0 or larger\n"),
        ("trace totals --rid -", "'--rid': a row id is a whole number, 0 or larger\n"),
        ("rows totals --rid abc", "'--rid': a row id is a whole number, 0 or larger; `-` reads"),
        (
            "rows t --out x.xyz",
            "Cannot tell the format from '.xyz'; give --format table, json, ndjson, csv or parquet.",
        ),
        ("forward t --all --to a --out x.html", "Cannot tell the format from '.html'"),
        ("diff t --out x.txt2", "Cannot tell the format from '.txt2'"),
        ("runs --out x.xml", "Cannot tell the format from '.xml'"),
        ("datasets --out x.CSVX", "Cannot tell the format from '.csvx'"),
        ("trace t --rid 0 --out x.csv", "Cannot tell the format from '.csv'; give --format text, json or html."),
        ("graph --all --out x.png", "Cannot tell the format from '.png'; give --format mermaid, dot, svg or html."),
        ("rows totals --format parquet", "needs --out"),
        ("rows totals --format parquet --out -", "needs --out"),
        ("rows totals --json --format csv", "contradict"),
        ("rows totals --format xml", "xml"),
        ("rows", "DATASET"),
        ("backward t --all --to a --pairs --count", "--pairs and --count contradict"),
        ("backward t --all --to a --roles", "needs --pairs"),
        ("backward t --all --to a --rids --columns b", "--columns"),
        ("backward t --all --pairs", "--pairs needs --to"),
        ("forward t --all --order-by a", "--order-by needs --to"),
        ("forward t --all --semantics why", "--semantics"),
        ("backward t --all --to a --semantics all", "--semantics"),
        ("backward t --all --semantics why --rids", "--rids cannot be combined with --semantics why"),
        ("backward t --all --semantics why --evaluate count", "--semantics how"),
        ("backward t --all --semantics how --evaluate boolean", "--without"),
        ("backward t --all --semantics how --evaluate count --cost s=1", "--evaluate min-cost"),
        ("backward t --all --semantics how --evaluate sum", "--evaluate"),
        ("run x.yml --capture never", "--capture"),
        ("run x.yml --verbose --quiet", "contradict"),
        ("run x.yml --master local --remote sc://h", "contradict"),
        ("run x.yml --var novalue", "NAME=VALUE"),
        ("rwos totals", "Did you mean 'rows'?"),
        ("zzz", "schema, validate"),
        ("--nonsense", "--nonsense"),
        ("validate", "FILE"),
    ],
)
def test_wrong_usage(call: Call, arguments: str, message: str) -> None:
    home = home_with_rows()
    result = call(arguments, home=home)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""
    assert home.opened_with is None


@pytest.mark.parametrize(
    ("arguments", "to"),
    [("", None), ("--to orders", "orders"), ("--to a --to b", ["a", "b"]), ("--to all", "all")],
)
def test_targets(call: Call, arguments: str, to: Any) -> None:
    home = home_with_rows()
    assert call(f"upstream totals --rid 0 {arguments}", home=home).code == 0
    assert home.asked[0][0] == "backward"
    assert home.options["to"] == to
    assert call(f"downstream totals --rid 0 {arguments}", home=home).code == 0
    assert home.asked[1][0] == "forward"
    assert home.options["to"] == to


def test_the_shape_asked_for_is_handed_on(call: Call) -> None:
    home = home_with_rows()
    call("backward t --all --to s --pairs --roles --influence --semantics which", home=home)
    told = {name: home.options[name] for name in ("rids", "pairs", "count", "roles", "influence", "semantics")}
    assert told == {
        "rids": False,
        "pairs": True,
        "count": False,
        "roles": True,
        "influence": True,
        "semantics": "which",
    }
    call("forward t --all --to s --count", home=home)
    assert "semantics" not in home.options


def test_what_polynomials_are_evaluated_to(call: Call) -> None:
    home = home_with_rows()
    gone = ["--without", "s=1, 2", "--without", "s=a > 1", "--without", "r=7"]
    call(["backward", "t", "--all", "--semantics", "how", "--evaluate", "boolean", *gone], home=home)
    assert home.options["evaluate"] == "boolean"
    assert home.options["without"] == {"s": "(a > 1) OR _rid IN (1, 2)", "r": [7]}
    call(["backward", "t", "--all", "--semantics", "how", "--evaluate", "min-cost", "--cost", "s=a * 2"], home=home)
    assert home.options["cost"] == {"s": "a * 2"}
    call("backward t --all --semantics how", home=home)
    assert home.options["columns"] == ["out_rid", "how"]  # the tree is for programs
    call("backward t --all --semantics how --json", home=home)
    assert home.options["columns"] is None


def test_columns_and_order(call: Call) -> None:
    home = home_with_rows()
    call(["rows", "t", "--columns", 'a, "b,c"', "--columns", "d", "--order-by", "a desc, round(b, 1)"], home=home)
    assert home.options["columns"] == ["a", "b,c", "d"]
    assert home.options["order_by"] == ["a desc", "round(b, 1)"]


def test_lists() -> None:
    assert split_names("a,,b ") == ["a", "b"]
    assert split_terms("a, \"x,y\" desc, f(g(1, 2), '3,4')") == ["a", '"x,y" desc', "f(g(1, 2), '3,4')"]
    assert split_terms("broken(a, b") == ["broken(a", "b"]


def test_lists_of_the_catalog(call: Call) -> None:
    home = FakeHome(answer({"run_id": ["3f2a"], "workflow": ["revenue"]}, "records"))
    assert call("runs --workflow revenue --limit 3 --json", home=home).json == [
        {"run_id": "3f2a", "workflow": "revenue"}
    ]
    assert home.options == {"workflow": "revenue", "failed": False, "limit": 3}
    assert call("datasets --run 3f --format csv", home=home).out == "run_id,workflow\n3f2a,revenue\n"
    assert home.options == {"run": "3f", "limit": None}


def test_the_format_follows_the_suffix(call: Call, tmp_path: Any) -> None:
    for suffix, start in (
        (".csv", "_rid\n"),
        (".json", "[\n"),
        (".ndjson", "{"),
        (".JSONL", "{"),
        (".txt", "_rid\n---"),
        ("", "_rid\n---"),
    ):
        file = tmp_path / f"x{suffix}"
        assert call(["rows", "t", "--out", str(file)], answer({"_rid": [0]})).code == 0
        assert file.read_text().startswith(start)
    assert call(["rows", "t", "--out", "-", "--json"], answer({"_rid": [0]})).json == [{"_rid": 0}]


def test_a_format_that_is_given_goes_with_any_suffix(call: Call, tmp_path: Any) -> None:
    file = tmp_path / "x.xyz"
    assert call(["rows", "t", "--format", "csv", "--out", str(file)], answer({"_rid": [0]})).code == 0
    assert file.read_text() == "_rid\n0\n"


def test_numbers_are_called_n_in_every_help(call: Call) -> None:
    for verb, options in (("rows", 2), ("backward", 3), ("trace", 3), ("diff", 2), ("runs", 1), ("datasets", 1)):
        out = call([verb, "--help"]).out
        assert "RANGE" not in out
        assert len([line for line in out.splitlines() if line.split()[1:2] == ["N"]]) == options, verb


@pytest.mark.parametrize("verb", ["schema", "init"])
def test_options_that_do_nothing_are_taken_and_not_told(
    call: Call, verb: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    help_ = call([verb, "--help"]).out
    assert "--home" not in help_
    assert "--catalog" not in help_
    assert call([verb, "--home", "here", "--catalog", "sqlite:///x"]).code == 0


# --- the rows that matter most ------------------------------------------------------------------------------------


def test_top_is_handed_on_and_replaces_the_limit(call: Call, terminal: None) -> None:
    home = home_with_rows()
    call(["backward", "t", "--rid", "0", "--to", "s", "--top", "3", "--by", "a * b desc"], home=home)
    assert (home.options["top"], home.options["by"], home.options["limit"]) == (3, "a * b desc", None)
    call("backward t --rid 0 --to s", home=home)
    assert "top" not in home.options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--to s --top 3", "--top needs --by"),
        ("--to s --by a", "it needs --top N"),
        ("--to s --top 0 --by a", "expected a whole number, 1 or larger"),
        ("--to s --top -1 --by a", "expected a whole number, 1 or larger"),
        ("--to s --top x --by a", "expected a whole number, 1 or larger"),
        ("--top 3 --by a", "--top needs --to"),
        ("--to s --top 3 --by a --pairs", "cannot be combined with --pairs"),
        ("--to s --top 3 --by a --count", "cannot be combined with --count"),
        ("--to s --top 3 --by a --order-by a", "cannot be combined with --order-by"),
        ("--to s --top 3 --by a --limit 3", "cannot be combined with --limit"),
    ],
)
def test_top_with_what_has_no_meaning_is_wrong_usage(call: Call, given: str, message: str) -> None:
    result = call(f"backward t --rid 0 {given}", home=home_with_rows())
    assert result.code == 2
    assert message in result.err


# --- columns of datasets ------------------------------------------------------------------------------------------


def test_columns_of_datasets(call: Call) -> None:
    home = FakeHome(answer({"dataset": ["f.t"], "column": ["a"], "type": ["int"], "pii": [True],
                            "computed_from": [["f.s.a", "f.s.b"]], "influenced_by": [[]], "run_id": ["3f"]}))  # fmt: skip
    result = call("datasets t --columns --through", home=home)
    assert home.asked == [("columns", (), {"dataset": ["t"], "run": None, "through": True, "limit": None})]
    assert result.out.splitlines()[-1].split() == ["f.t", "a", "int", "true", "f.s.a,", "f.s.b"]
    assert '"computed_from": ["f.s.a", "f.s.b"]' in call("datasets t --columns --json", home=home).out
    assert call("datasets --through", home=home).code == 2
