"""What Python users meet first: wrong arguments, what is exported, len, iteration, repr. No Spark."""

import inspect
from decimal import Decimal
from importlib.metadata import version

import numpy as np
import pyarrow as pa
import pytest

import lineage_service
from lineage_service import Home, LineageError, NotFound, QuestionError
from lineage_service.arguments import CHECKS
from lineage_service.audit.facade import Audit
from tests.support.made_runs import Made, MadeHome
from tests.support.paths import ROOT

SECRET = "Q7secretQ7"
ROWS = pa.table({"id": [7, 8, 9], "name": [f"{SECRET}{n}" for n in range(3)], "amount": [1.5, 2.5, 3.5]})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = MadeHome(tmp_path_factory.mktemp("python") / "home")
    hops = {"s": [(0, 0), (1, 1), (2, 2)]}
    made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS, hops=hops)})
    made.run("flow", {"s": Made(ROWS, "source"), "out": Made(ROWS.slice(1), hops={"s": [(0, 1), (1, 2)]})})
    with made.home as opened:
        yield opened


# A wrong value for each kind of annotation.
WRONG = {
    "str": (5, None), "str | None": (5, b"x"), "str | Path": (5, None), "str | Path | None": (5,), "bool": ("yes", 1, None),
    "int": ("3", -1, 1.5, None, True), "int | None": ("3", -1, 1.5), "float": ("x", None), "float | None": ("x", [1]),
    "Rids": ("x", 1.5, ["x"], [1.5], [None], True, {"a": 1}), "Keys": ("AA", 5, ["AA"], [("a",)], {1: 2}, {"id": [7]}, {"id": object()}, {"id": b"7"}),
    "Names": (5, [5], {"a": 1}), "Sequence[str] | None": (5, [5], {"a": 1}), "Iterable[str] | None": (5, "text", [5], [None]),
    "Mapping[str, str] | None": ("a=1", ["a"], {1: "a"}, {"a": None}), "Mapping[str, str | None]": ("a", {"a": 1}),
    "Mapping[str, Names] | None": ("a", {"a": 5}), "Mapping[str, str | float] | None": ("a", {"a": None}),
    "Mapping[str, str | int | Iterable[int]] | None": ("a", {"a": None}, {"a": [None]}), "Tell | None": ("print", 5),
    "Given | Iterable[Given]": (None, 5, [5], [None], {"customer": 3}, b"customer=3", ("customer", object())),
    "CaseOptions | None": ("R1", 5), "IndexOptions | None": ("local", {}),
}  # fmt: skip


def methods():
    for owner in (Home, Audit):
        for name, method in inspect.getmembers(owner):
            if not name.startswith("_") and callable(method):
                yield owner, name, inspect.signature(method)


def wrong_calls():
    for owner, name, signature in methods():
        for parameter in signature.parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY or parameter.name in (
                "dataset",
                "source",
                "sql",
                "file",
                "subjects",
            ):
                for value in WRONG.get(str(parameter.annotation), ()):
                    yield owner, name, signature, parameter.name, value


def given(signature: inspect.Signature, wrong: str) -> dict:
    """What the method needs beside the argument that is wrong."""
    fill = {
        "dataset": "out",
        "source": "s",
        "to": "out",
        "without": "s",
        "on": "out",
        "sql": "SELECT 1",
        "file": "x.yml",
        "values": {},
        "days": 1,
    }
    needed = [each for each in signature.parameters.values() if each.default is inspect.Parameter.empty]
    return {each.name: fill.get(each.name, "x") for each in needed if each.name not in ("self", wrong)
            and each.kind is not inspect.Parameter.VAR_POSITIONAL}  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "name", "signature", "parameter", "value"),
    list(wrong_calls()),
    ids=lambda value: str(value)[:20] if not isinstance(value, inspect.Signature) else "",
)
def test_a_wrong_argument_says_what_is_expected(home, owner, name, signature, parameter, value):
    target = home if owner is Home else home.audit
    with pytest.raises(QuestionError) as caught:
        getattr(target, name)(**given(signature, parameter), **{parameter: value})
    message = str(caught.value)
    assert f"'{parameter}'" in message and "needs" in message and "for example" in message


def test_every_annotation_has_a_check():
    assert {"run", "backward", "query", "access", "verify"} <= {name for _, name, _ in methods()}
    for owner, name, signature in methods():
        for parameter in list(signature.parameters.values())[name != "open" :]:
            if parameter.name != "self":
                assert str(parameter.annotation) in CHECKS, (owner, name, parameter)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda home: home.rows("out", key="AA"), "{'column': 'value'}"),
        (lambda home: home.rows("out", rid="x"), "7 or [7, 8]"),
        (lambda home: home.rows("out", rid=(each for each in "ab")), "whole number"),
        (lambda home: home.rows("out", rid=2**70), "64 bits"),
        (lambda home: home.rows("out", key={"id": None}), "IS NULL"),
        (lambda home: home.rows("out", wher="id > 1"), "did you mean 'where'"),
        (lambda home: home.rows("out", 3), "needs its name"),
        (lambda home: home.rows(), "needs 'dataset'"),
        (lambda home: home.rows("out", dataset="out"), "twice"),
        (lambda home: home.why_not("s"), "needs 'to'"),
        (lambda home: home.what_if(where="id > 1"), "'without', 'on'"),
        (lambda home: home.rows("out", limit=-1), "negative"),
        (lambda home: home.audit.log(since=5), "'since'"),
        (lambda home: home.rows("out", key=iter([("id", [7])])), "a key is one value"),
        (lambda home: home.backward("out", rid=0, to=[]), "'to' names no dataset"),
        (lambda home: home.backward("out", rid=0, to=(), semantics="why"), "'to' names no dataset"),
        (lambda home: home.forward("s", rid=0, to=iter([])), "'to' names no dataset"),
        (lambda home: home.what_if(without="s", rid=0, on=[]), "'on' names no dataset"),
        (lambda home: home.audit.access(iter([5])), "a subject is KIND=VALUE"),
        (lambda home: home.audit.access([("customer", None)]), "KIND=VALUE"),
        (lambda home: home.audit.plan_erasure(iter([("customer", [3])])), "a subject is KIND=VALUE"),
        (lambda home: home.audit.verify("x.json", values=iter([5])), "are texts"),
    ],
)
def test_slips_are_questions_that_cannot_be_answered(home, ask, said):
    with pytest.raises(QuestionError) as caught:
        ask(home)
    assert said in str(caught.value)


def test_a_wrong_value_is_not_quoted(home):
    with pytest.raises(QuestionError) as caught:
        home.rows("out", rid=SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("rid", [1, [1], (1,), {1}, np.int64(1), np.array([1]), pa.array([1]), iter([1]), range(1, 2)])
def test_row_ids_of_any_kind(home, rid):
    assert [row["_rid"] for row in home.rows("out", rid=rid)] == [1]


@pytest.mark.parametrize("key", [8, "8", np.int64(8), pa.scalar(8), Decimal(8)])
def test_keys_of_any_kind(home, key):
    assert [row["id"] for row in home.rows("out", key={"id": key})] == [8]


@pytest.mark.parametrize("columns", [["id"], ("id",), {"id": 1}.keys(), iter(["id"])])
def test_columns_of_any_kind(home, columns):
    assert home.rows("out", columns=columns).arrow().column_names == ["_rid", "id"]


def test_answers_have_a_length_and_rows(home):
    answer = home.rows("out")
    assert len(answer) == 2 and [row["id"] for row in answer] == [8, 9] and list(answer) == answer.to_pylist()
    assert len(home.rows("out", where="id > 100")) == 0 and list(home.rows("out", where="id > 100")) == []
    counts = home.backward("out", rid=0)
    assert len(counts) == 1 and next(iter(counts))["dataset"] == "flow.s"
    several = home.backward("out", all=True, to=["s"])
    assert len(several) == 2 and list(several) == several.to_pylist()
    assert len(home.runs()) == 2


def test_diffs_are_walked_change_by_change(home):
    before, after = [row["run_id"] for row in home.runs()][::-1]
    diff = home.diff(f"out@{before}", f"out@{after}", key="id")
    assert len(diff) == 1 and [each.change for each in diff] == ["removed"]
    assert SECRET not in repr(diff) + "".join(repr(each) + repr(each.behind) for each in diff)
    assert repr(diff).startswith("<Diff of flow.out")


def test_what_is_shown_has_no_values_in_it(home):
    assert repr(home) == f"Home({str(home.layout.path)!r})" and repr(home.audit).startswith("Audit(")
    shown = repr(home.rows("out", key={"name": f"{SECRET}1"}))
    assert shown == "<Answer (rows): _rid, id, name, amount>"
    trace = home.trace("out", rid=0)
    assert repr(trace).startswith("<Trace of flow.out, row 0") and SECRET not in repr(trace) + repr(trace.behind)
    assert SECRET not in repr(trace.record)


def test_errors_and_version_are_exported():
    for name in lineage_service.__all__:
        assert getattr(lineage_service, name) is not None
    assert issubclass(NotFound, LineageError) and lineage_service.__version__ == version("smoke-lineage")
    assert set(lineage_service.__all__) <= set(dir(lineage_service))
    errors = [each for each in vars(lineage_service.errors).values() if inspect.isclass(each)]
    raised = {each.__name__ for each in errors if issubclass(each, Exception)}
    assert raised <= set(lineage_service.__all__)


def test_type_hints_are_shipped():
    for package in ("lineage_service", "catalog/lineage_catalog", "cli/lineage_cli"):
        assert (ROOT / package / "py.typed").is_file()
