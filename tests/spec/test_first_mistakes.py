"""Mistakes of a first workflow file: each gets one message that is true, at its place, with what to write instead."""

from pathlib import Path

import pytest

from lineage_service.errors import LineageError
from lineage_service.plan.schema import Column, ColumnError, Schema
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.store.declared_schema import FOREIGN_TYPES

HEAD = "version: 1\nname: w\n"
SOURCES = "sources:\n  s: {path: b.csv, schema: 'x int, y string'}\n"
STEPS = "steps:\n  - {name: f, op: filter, input: s, where: x > 1}\n"
OUTPUTS = "outputs: {f: }\n"


def step(text: str) -> str:
    return f"{HEAD}{SOURCES}steps:\n  - {text}\n{OUTPUTS}"


def where(text: str) -> str:
    """In block style: what stands behind `where:` is up to YAML."""
    return step(f"name: f\n    op: filter\n    input: s\n    where: {text}")


def source(text: str) -> str:
    return f"{HEAD}sources:\n  s: {text}\n{STEPS}{OUTPUTS}"


def told(folder: Path, text: str | bytes) -> list[str]:
    (folder / "b.csv").touch()
    file = folder / "w.yml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        found = validate_workflow(file, home=folder / "home")
    except LineageError as error:
        found = error.problems
    assert all(problem.position is not None for problem in found)
    return [str(problem).replace(f"{file}:", "") for problem in found]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + SOURCES + STEPS + OUTPUTS,
        "\ufeff" + HEAD + SOURCES + STEPS + OUTPUTS,
        (HEAD + SOURCES + STEPS + OUTPUTS).replace("\n", "\r\n"),
        (HEAD + SOURCES + STEPS + OUTPUTS).replace("\n", "\r"),
        HEAD + SOURCES + STEPS + OUTPUTS + "...\n",
        where("y = \"2024-01-31\" and x - 2024 - 1 > 0"),
        step("{name: f, op: sort, input: s, by: x desc}"),
        step("{name: f, op: limit, input: s, n: '10'}"),
    ],
    ids=["plain", "bom", "crlf", "cr", "dots", "dates", "one order", "quoted number"],
)  # fmt: skip
def test_these_are_no_mistakes(tmp_path, text):
    assert told(tmp_path, text) == []


MISTAKES = {
    # --- the file
    "utf-16": ((HEAD + SOURCES).encode("utf-16"), "1:1: the file is not UTF-8", "save it as UTF-8"),
    "latin-1": (HEAD.encode() + "owner: Käthe".encode("latin-1"), "3:9: the file is not UTF-8", "save it as UTF-8"),
    "a tab": (HEAD + "sources:\n\ts: {path: b.csv}\n", "4:1: not valid YAML", "with spaces, not tabs"),
    "a path of Windows": (source('{path: "C:\\Users\\b.csv"}'), "4:18: not valid YAML", "use single quotes, or /"),
    "a line too far right": (step("name: f\n    op: filter\n     input: s"), "8:11: not valid YAML", "the indentation"),
    "keys left of the first": (step("name: f\n  op: filter"), "7:3: not valid YAML", "below each other"),
    "no space behind a colon": (step("name:f\n    op: filter"), "7:7: not valid YAML", "a ':' without a space"),
    "a quote that is not closed": (source("{path: 'b.csv}"), "not valid YAML", "never closed"),
    # --- parts of the wrong kind: what names them is not blamed
    "steps as a mapping": (
        HEAD + SOURCES + "steps:\n  f: {op: filter, input: s, where: x > 1}\n" + OUTPUTS,
        "6:3: 'steps' of the workflow needs a list, not a mapping", "begin every step with a dash"),
    "steps without a dash": (
        HEAD + SOURCES + "steps:\n  name: f\n  op: filter\n" + OUTPUTS,
        "6:3: 'steps' of the workflow needs a list", "begin every step with a dash"),
    "no steps": (HEAD + SOURCES + "steps:\n" + OUTPUTS, "5:1: 'steps' of the workflow needs a list, not nothing", "dash"),
    "sources as a list": (
        HEAD + "sources:\n  - {name: s, path: b.csv}\n" + STEPS + OUTPUTS,
        "4:3: 'sources' of the workflow needs a mapping, not a list", "a source's name is its key"),
    "no sources": (HEAD + STEPS + OUTPUTS, "1:1: the workflow needs 'sources'", ""),
    "outputs as a list": (
        HEAD + SOURCES + STEPS + "outputs:\n  - f\n",
        "8:3: 'outputs' of the workflow needs a mapping, not a list", "an output's name is its key"),
    "no outputs": (HEAD + SOURCES + STEPS, "1:1: the workflow needs 'outputs'", ""),
    "an empty step": (HEAD + SOURCES + "steps:\n  -\n" + OUTPUTS, "6:4: step 1 needs to be a mapping", ""),
    "a source that is its path": (source("b.csv"), "4:6: source 's' needs a mapping, not 'b.csv'", "write {path: b.csv}"),
    "an output that is its path": (
        HEAD + SOURCES + STEPS + "outputs: {f: out/f}\n",
        "7:14: output 'f' needs a mapping, not 'out/f'", "write {path: out/f}"),
    "variables as a list": (
        HEAD + "vars: [a, b]\n" + SOURCES + STEPS + OUTPUTS, "3:7: 'vars' of the workflow needs", "a variable's name"),
    "options as a list": (source("{path: b.csv, options: [header]}"), "'options' of source 's' needs", "{header: true}"),
    "a version in quotes": (
        (HEAD + SOURCES + STEPS + OUTPUTS).replace("version: 1", "version: '1'"),
        "1:10: 'version' of the workflow is '1'; it can be: 1", "without quotes"),
    # --- sources
    "a format in capitals": (source("{path: b.csv, format: CSV}"), "4:28: 'format' of source 's' is 'CSV'", "'csv'"),
    "a type of Python": (source("{path: b.csv, schema: 'x int, y str'}"), "4:28: source 's': schema: 'str'", "`string`"),
    "a type of pandas": (source("{path: b.csv, schema: 'x int64'}"), "schema: 'int64' is not a Spark type", "`bigint`"),
    "a type of Python inside": (source("{path: b.csv, schema: 'x struct<a:str>'}"), "schema: 'str' is not a Spark type", "`string`"),
    "a whole CREATE TABLE": (source("{path: b.csv, schema: create table t (x int)}"), "only the columns", "without CREATE"),
    "a column twice": (source("{path: b.csv, schema: 'x int, X int'}"), "4:28: source 's': schema: two columns", ""),
    # --- steps
    "the op as a key": (step("filter: {name: f, input: s, where: x > 1}"), "6:5: step 1 needs 'op'", "`op: filter`"),
    "the op as a list": (step("{name: f, op: [filter], input: s}"), "6:19: 'op' of step 'f' needs one of these words", ""),
    "a name in capitals": (step("{name: f, op: distinct, input: S}"), "unknown step or source 'S'", "did you mean 's'?"),
    "keys in one text": (
        step("{name: f, op: aggregate, input: s, by: 'x, y', measures: {n: count(*)}}"),
        "6:44: 'by' of step 'f' (aggregate) needs a list or a mapping", "write [x, y]"),
    "keys in one entry": (
        step("{name: f, op: aggregate, input: s, by: ['x, y'], measures: {n: count(*)}}"),
        "6:45: unknown column 'x, y'", "write each as an entry of its own: [x, y]"),
    "a key without a name": (
        step("{name: f, op: aggregate, input: s, by: [upper(y)], measures: {n: count(*)}}"),
        "6:45: unknown column 'upper(y)'", "`by: {name: upper(y)}`"),
    "measures as a list": (
        step("{name: f, op: aggregate, input: s, by: [x], measures: [count(*)]}"),
        "6:59: 'measures' of step 'f' (aggregate) needs a mapping, not a list", "{total: sum(amount)}"),
    "columns as a list": (
        step("{name: f, op: with_columns, input: s, columns: [x + 1]}"),
        "6:52: 'columns' of step 'f' (with_columns) needs a mapping, not a list", "{double: amount * 2}"),
    "a column with AS": (
        step("{name: f, op: project, input: s, columns: [x, y as z]}"), "6:51: unknown column 'y as z'", "{z: y}"),
    "all columns": (step("{name: f, op: project, input: s, columns: ['*']}"), "unknown column '*'", "op: with_columns"),
    "an order as a mapping": (
        step("{name: f, op: sort, input: s, by: [{x: desc}]}"), "6:40: entry 1 of 'by' of step 'f'", "write 'x desc'"),
    "an order in full": (step("{name: f, op: sort, input: s, by: [x descending]}"), "6:40: 'descending'", "write 'desc'"),
    "a check as a word": (
        step("{name: f, op: distinct, input: s, checks: not_null}"),
        "6:47: 'checks' of step 'f' (distinct) needs a list", "[{not_null: [column]}"),
    "checks of words": (
        step("{name: f, op: distinct, input: s, checks: [not_null]}"),
        "6:48: entry 1 of 'checks' of step 'f' (distinct) needs a mapping", "[{not_null: [column]}"),
    # --- expressions
    "an unquoted star": (where("*x"), "9:12: unknown alias '*x'", "is put in quotes"),
    "an unquoted backtick": (where("`x` > 1"), "9:12: not valid YAML", "begins with ` is put in quotes"),
    "a text at the start": (where("'a' = y"), "9:16: not valid YAML", "the whole value in quotes"),
    "a variable between braces": (
        HEAD + "vars: {d: 1}\n" + SOURCES + "steps:\n  - {name: f, op: filter, input: s, where: x > ${d}}\n" + OUTPUTS,
        "7:49: not valid YAML", "between { and }"),
    "a variable without braces": (where("x > $d"), "9:12: the character '$' has no place", "written ${name}"),
    "a template": (where("x > {{ d }}"), "9:12: the character '{' has no place", "written ${name}"),
    "operators of C": (where("x == 1 && y != 'a'"), "9:12: cannot read the expression", "write AND and OR"),
    "the word itself": (where("where x > 1"), "9:12: cannot read the expression", "leave the word WHERE away"),
    "None": (where("x is not None"), "9:12: unknown column 'None'", "`null`"),
    "yes": (where("yes"), "9:12: unknown column 'yes'", "write true"),
    "col": (where("col('x') > 1"), "9:12: unknown function 'col'", "by its name alone"),
    "a semicolon": (where("x > 1;"), "9:12: an expression is one value, without ';'", "remove the ';'"),
    "a number": (where("1"), "9:12: `where` needs a condition, and this is a number", "compare it"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_one_message_at_its_place(tmp_path, text, message, hint):
    (found,) = told(tmp_path, text)
    assert message in found and hint in found.partition("hint: ")[2], found
    assert found[0].isdigit(), "it begins with line and column"


@pytest.mark.parametrize(("separator", "shown"), [(";", '";"'), ("\t", '"\\t"'), ("|", '"|"')])
@pytest.mark.parametrize("header", ["id{0}x{0}y", '"id"{0}"x"{0}"y"', "id{0}X{0}unit price"])
def test_a_separator_that_is_not_given(tmp_path, separator, shown, header):
    (tmp_path / "c.csv").write_text(header.format(separator) + "\n")
    for text in (source("{path: c.csv, options: {header: true}}"),
                 source("{path: c.csv, options: {header: true}, pii: [x]}").replace("x > 1", "true"),
                 source("{path: c.csv, options: {header: true}, rename: {x: z}}")):  # fmt: skip
        (found,) = told(tmp_path, text)
        assert found.endswith(
            f"hint: columns that are separated by {shown} need `options: {{header: true, sep: {shown}}}`"
        )


def test_a_mistyped_column_and_a_separator_that_is_not_given(tmp_path):
    (tmp_path / "c.csv").write_text("id;xx\n")
    (found,) = told(tmp_path, source("{path: c.csv, options: {header: true}}"))
    assert "unknown column 'x'; columns here: id;xx" in found and 'sep: ";"' in found


@pytest.mark.parametrize("header", ["xx,y;z", "x;y and more,xx"])
def test_a_column_with_a_semicolon_in_its_name_is_no_separator(tmp_path, header):
    (tmp_path / "c.csv").write_text(header + "\n")
    text = source("{path: c.csv, options: {header: true}}").replace("x > 1", "xxx > 1")
    (found,) = told(tmp_path, text)
    assert "unknown column 'xxx'" in found and "did you mean 'xx'?" in found and "sep" not in found


def test_a_header_that_is_not_read_as_one():
    with pytest.raises(ColumnError) as error:
        Schema((Column("_c0"), Column("_c1"))).resolve("x")
    assert error.value.hint is not None and "`options: {header: true}`" in error.value.hint


@pytest.mark.parametrize("text", ["y > 2024-01-31", "2024-01-31 = y", "y between 2024-01-01 and 2024-12-31"])
def test_a_date_without_quotes_is_a_warning(tmp_path, text):
    found = told(tmp_path, where(text))
    assert found and all(
        "warning: 2024-" in each and "no date" in each and "write date '2024-" in each for each in found
    )


def test_types_of_others_are_none_of_sparks(spark):
    from pyspark.errors import PySparkException

    for word in (*FOREIGN_TYPES, "create table t (x int)"):
        with pytest.raises(PySparkException):
            spark.createDataFrame([], f"x {word}")
