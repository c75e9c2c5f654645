"""No test passes because there was nothing to look at: each has an assertion that does not depend on a loop."""

import pytest

from tests.support.paths import ROOT
from tests.support.sure_assertions import Assertions

FILES = sorted((ROOT / "tests").rglob("test_*.py"))


def test_every_test_asserts_something_for_sure():
    assert len(FILES) > 100
    found = {str(path.relative_to(ROOT)): Assertions(path.read_text(encoding="utf-8")).unsure_tests() for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}, (
        "assert first that there is something to loop over"
    )


def test_files_have_names_of_their_own():
    """conftest.py orders files by their names. Those of the catalog's package may repeat one of the service's."""
    names = [path.stem for path in FILES if path.parent.name != "catalog"]
    assert sorted(set(names)) == sorted(names)


UNSURE = [
    "for row in home.rows(): assert row",
    "for row in rows:\n  with pytest.raises(ValueError): ask(row)",
    "assert all(row for row in rows)",
    "assert not any(row for row in rows)",
    "rows = [row for row in range(3) if row > x]\n for row in rows: assert row",
    "while rows: assert rows.pop()",
    "for name in ('a', 'b'):\n  for row in home.rows(name): assert row",
    "for row in rows: helper(row)",
    "try: ask()\n except ValueError as e:\n  for each in e.args: assert each",
]
SURE = [
    "assert rows\n for row in rows: assert row",
    "for row in (1, 2): assert row",
    "for name in NAMES: assert name",
    "cases = {'a': 1}\n for name, value in cases.items(): assert name",
    "for row in range(3): assert row",
    "assert len(rows) == 3 and all(row for row in rows)",
    "assert [row for row in rows if row] == []",
    "helper(rows)",
    "for row in rows: pass\n with pytest.raises(ValueError): ask()",
    "home.run()",  # raises if it fails
]
MODULE = "NAMES = ['a']\ndef helper(row): assert row\ndef test_it(home, rows):\n "


@pytest.mark.parametrize("body", UNSURE)
def test_what_holds_of_no_rows_is_found(body):
    assert Assertions(MODULE + body).unsure_tests() == ["test_it"]


@pytest.mark.parametrize("body", SURE)
def test_what_is_asserted_for_sure_is_fine(body):
    assert Assertions(MODULE + body).unsure_tests() == []
