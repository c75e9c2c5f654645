"""`smoke-lineage init`: a project that runs, and never a file overwritten."""

import shlex
from pathlib import Path

import pytest

from lineage_service import Home
from lineage_service.errors import LineageError
from lineage_service.runs.workflow_file import validate_workflow
from lineage_service.starter import make_project

FILES = {"bakery.yml", "data/deliveries.csv", "data/products.json", "README.md", ".gitignore"}


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs the program in a folder of its own."""
    from lineage_cli.main import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        out, err = capsys.readouterr()
        return left.value.code, out, err

    return run


def commands_of(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


def test_the_project_is_valid_and_runs(spark, call, tmp_path, monkeypatch):
    for variable in ("SMOKE_HOME", "SMOKE_CATALOG"):
        monkeypatch.delenv(variable, raising=False)
    make_project(tmp_path, "buns")
    assert validate_workflow(tmp_path / "buns.yml", home=tmp_path / ".smoke") == ()
    with Home.open(tmp_path / ".smoke") as home:
        report = home.run(tmp_path / "buns.yml")
        assert report.workflow == "buns"
        assert {name: facts["rows"] for name, facts in report.outputs.items()} == {"bills": 3, "unsold": 1}
        (highest, *_) = home.rows("bills").to_pylist()
        assert (highest["customer"], str(highest["amount"])) == ("Café Anker", "306.00")
        behind = home.backward("bills", rid=0, to="deliveries").to_pylist()
        assert [row["delivery_id"] for row in behind] == [1, 5, 8]
        assert home.backward("unsold", rid=0, to="deliveries").absence == ["deliveries"]
    said = commands_of(tmp_path / "README.md")
    assert [words[1] for words in said] == ["validate", "run", "rows", "backward", "forward"]
    for words in said:
        if words[1] != "run":
            assert call(*words[1:])[0] == 0


def test_what_it_made_and_what_comes_next(call, tmp_path):
    code, out, err = call("init", "my project")
    assert (code, err) == (0, "")
    assert files_in(tmp_path / "my project") == FILES
    assert out.startswith("made in my project:\n  bakery.yml ")
    assert out.endswith(
        "next:\n  cd 'my project'\n  smoke-lineage validate bakery.yml\n  smoke-lineage run bakery.yml\n"
        "  smoke-lineage rows bills\n"
    )
    assert max(map(len, out.splitlines())) <= 60
    assert (tmp_path / "my project" / ".gitignore").read_text().splitlines()[-1] == ".smoke/"


def test_in_the_current_folder_there_is_nowhere_to_go(call, tmp_path):
    code, out, _ = call("init")
    assert code == 0
    assert files_in(tmp_path) == FILES
    assert "cd " not in out
    assert "made in this folder:" in out


def test_the_workflow_has_the_name_that_was_given(call, tmp_path):
    code, out, _ = call("init", "--name", "bread_2")
    assert code == 0
    assert "smoke-lineage run bread_2.yml" in out
    text = (tmp_path / "bread_2.yml").read_text(encoding="utf-8")
    assert "\nname: bread_2\n" in text
    assert "__name__" not in text + (tmp_path / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["Bread", "2nd", "a-b", "a b", "../up", "ä", "a\n"])
def test_a_name_that_is_none(name, call, tmp_path):
    code, out, err = call("init", "--name", name)
    assert (code, out) == (1, "")
    assert "is no name of a workflow" in err
    assert files_in(tmp_path) == set()


def test_nothing_is_overwritten(call, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "products.json").symlink_to(tmp_path / "nowhere")
    code, out, err = call("init")
    assert (code, out) == (1, "")
    assert "files are in the way in '.': data/products.json, README.md; nothing was written" in err
    assert files_in(tmp_path) == {"README.md"}
    assert (tmp_path / "README.md").read_text() == "mine"


def test_twice_is_refused(call, tmp_path):
    assert call("init", "p")[0] == 0
    code, _, err = call("init", "p")
    assert code == 1
    assert "bakery.yml, data/deliveries.csv, data/products.json, README.md, .gitignore" in err


@pytest.mark.parametrize("folder", ["file", "file/below", "dangling"])
def test_a_file_where_a_folder_should_be(folder, call, tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    code, _, err = call("init", folder)
    assert code == 1
    assert f"cannot make a project in '{folder}'" in err
    assert "is no folder" in err
    assert files_in(tmp_path) == {"file"}


def test_a_file_called_data(call, tmp_path):
    (tmp_path / "data").write_text("mine")
    code, _, err = call("init")
    assert code == 1
    assert "files are in the way in '.': data; nothing was written" in err


def test_a_folder_that_may_not_be_written(tmp_path, monkeypatch):
    def refused(path, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lineage_service.starter._content", lambda template, name: b"x")
    monkeypatch.setattr(Path, "mkdir", refused)  # root, who may run the tests, may write anywhere
    with pytest.raises(LineageError, match=r"cannot make a project in .*: permission denied"):
        make_project(tmp_path / "new")


def test_what_was_begun_is_removed_where_it_fails(tmp_path, monkeypatch):
    """The disk is full when the third file is written: nothing stays, not even the folders."""
    real, opened = Path.open, []

    def open_(path, *arguments, **options):
        opened.append(path)
        if len(opened) == 3:
            raise OSError(28, "No space left on device")
        return real(path, *arguments, **options)

    monkeypatch.setattr("lineage_service.starter._content", lambda template, name: b"x")
    monkeypatch.setattr(Path, "open", open_)
    with pytest.raises(LineageError, match=r"cannot make a project in .*: no space left on device"):
        make_project(tmp_path / "new" / "project")
    assert list(tmp_path.iterdir()) == []
