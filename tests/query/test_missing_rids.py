"""The message about a row that does not exist names rids that exist."""

from types import SimpleNamespace

import pytest

from lineage_service.errors import NotFound
from lineage_service.query.start_rows import StartRows


@pytest.mark.parametrize(
    ("held", "end", "said"),
    [
        ({1, 2, 3, 5, 8}, 9, "rids run from 1 to 8, with gaps where rows were removed"),
        ({0, 1, 2}, 4, "rids run from 0 to 2, with gaps where rows were removed"),
        (set(), 4, "it has no rows"),
        (set(range(20_000, 20_010)), 20_010, "rids run from 0 to 20009"),
    ],
)
def test_the_first_and_the_last_row_are_named(held, end, said):
    version = SimpleNamespace(end=end, rows=len(held), is_dense=False)
    scan = SimpleNamespace(version=version, position=lambda rid: rid if rid in held else None)
    with pytest.raises(NotFound) as refused:
        StartRows._refuse_unknown_rids(None, SimpleNamespace(full_name="shop.ranked"), scan, [end + 1])
    assert said in str(refused.value)
