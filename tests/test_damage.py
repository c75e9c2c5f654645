"""Damage is noticed: whatever is flipped, cut, lost or exchanged in a home, an answer is the right one or an error that
names the file; and `doctor` finds it."""

import os
import random
import time
from collections import Counter

import pytest

from lineage_service.errors import LineageError
from tests import damaged_home
from tests.damaged_home import answers, damage, files_by_kind, is_named

FLIPS = int(os.environ.get("SMOKE_FLIPS", "60"))
SEED = int(os.environ.get("SMOKE_SEED", "7"))


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    return damaged_home.make(tmp_path_factory.mktemp("damage") / "shop")


@pytest.fixture(scope="module")
def right(home):
    """What is answered while nothing is damaged, and none of it an error."""
    kept = {path: path.read_bytes() for path in damaged_home._changing(home)}
    found = answers(home, spark=True)
    for path, content in kept.items():
        path.write_bytes(content)
    return found


def test_everything_is_answered_while_nothing_is_damaged(right):
    assert {name: str(each) for name, each in right.items() if isinstance(each, LineageError)} == {}
    assert [name for name, each in right.items() if not each and name not in ("requests", "rows shop.silent")] == []


def test_no_damage_gives_a_wrong_answer(home, right):
    chance = random.Random(SEED)
    files, tally, wrong = files_by_kind(home), Counter(), []
    began = time.monotonic()
    for number in range(FLIPS):
        with damage(home, files, chance) as done:
            again = done.kind in ("settings.json", "tables.json", "lineage") and done.how != "swapped"
            found = answers(home, spark=again)
            refused = {name: each for name, each in found.items() if isinstance(each, LineageError)}
            for name, each in found.items():
                if name not in refused and each != right[name]:
                    wrong.append((number, done, name, "another answer"))
                elif name in refused and not is_named(each, done, home):
                    wrong.append((number, done, name, str(each)))
            tally[done.kind, "refused" if refused else "as before"] += 1
    print(f"{FLIPS} in {time.monotonic() - began:.0f} s", *sorted(tally.items()), sep="\n")
    assert wrong == []
