"""Damage is noticed: whatever is flipped, cut, lost or exchanged in a home, an answer is the right one or an error that
names the file; and `doctor` finds it.

SMOKE_FLIPS=2000 tries more; SMOKE_SEED others.
"""

import os
import random
from collections import Counter

import pytest

from lineage_service.doctor import examination as doctor
from lineage_service.errors import DamagedFile, LineageError
from tests.support import damaged_home
from tests.support.damaged_home import answers, damage, files_by_kind, is_named, kind_of

FLIPS = int(os.environ.get("SMOKE_FLIPS", "60"))
SEED = int(os.environ.get("SMOKE_SEED", "7"))
pytestmark = pytest.mark.timeout(600 + 2 * FLIPS)
READERS, OTHERS = 3, 2  # questions after each flip: some that read the damaged file, and any


@pytest.fixture(scope="module")
def home(spark, tmp_path_factory):
    return damaged_home.make(tmp_path_factory.mktemp("damage") / "shop")


@pytest.fixture(scope="module")
def known(home):
    """What is answered while nothing is damaged, and by reading which files."""
    return damaged_home.ask_everything(home)


@pytest.fixture
def found_by_doctor(home, monkeypatch):
    monkeypatch.setattr(doctor, "_java_checks", lambda: [])
    monkeypatch.setattr(doctor, "_spark_checks", lambda: [])
    return lambda: [each.detail for each in doctor.examine(home).checks if each.status == "problem"]


def test_everything_is_answered_while_nothing_is_damaged(home, known, found_by_doctor):
    right = known.answers
    assert {name: str(each) for name, each in right.items() if isinstance(each, LineageError)} == {}
    assert [name for name, each in right.items() if not each and name != "requests"] == []
    assert found_by_doctor() == []


def test_every_kind_of_file_is_read_by_questions(home, known):
    """So that damage to it can be asked about. Settings of Spark are read by what is evaluated again, of some runs."""
    files = files_by_kind(home)
    assert set(files) == {"catalog.db", "audit.key", "audit.anchors", "data", "sources", "index", "index by Spark",
                          "patches", "subjects", "prepared", "lineage", "settings.json", "aligned.json",
                          "tables.json"}  # fmt: skip
    unread = [path for paths in files.values() for path in paths if not known.readers(path)]
    assert {path.name for path in unread} <= {"settings.json"}
    assert len(unread) < len(files["settings.json"])


def test_no_damage_gives_a_wrong_answer(home, known):
    chance, tally, wrong = random.Random(SEED), Counter(), []
    files = {kind: [path for path in paths if known.readers(path)] for kind, paths in files_by_kind(home).items()}
    for number in range(FLIPS):
        with damage(home, files, chance) as done:
            readers = known.readers(done.paths[0])
            asked = [*chance.sample(readers, min(READERS, len(readers))), *chance.sample(known.quick, OTHERS)]
            found = answers(home, asked)
        assert readers
        compared = done.kind not in ("catalog.db", "audit.key", "audit.anchors")  # every byte of the file
        refused = {name: each for name, each in found.items() if isinstance(each, LineageError)}
        wrong += [(number, done, name, str(each)) for name, each in refused.items() if not is_named(each, done, home)]
        wrong += [
            (number, done, name) for name, each in found.items() if name not in refused and each != known.answers[name]
        ]
        wrong += [
            (number, done, name, "not noticed")
            for name in found
            if compared and name in readers and name not in refused
        ]
        tally[done.kind, "refused" if refused else "as before"] += 1
    print(*sorted(tally.items()), sep="\n")
    assert wrong == []


@pytest.mark.parametrize("question", ["diff", "why not plain"])
def test_a_lost_file_of_the_home_is_no_source_that_went(home, known, question):
    """Of sources that are gone both tell less; copies in the home cannot go."""
    copies = [path for path in files_by_kind(home)["sources"] if path in known.files[question]]
    assert copies
    for path in copies:
        with damaged_home.put_back(home, path):
            path.unlink()
            (found,) = answers(home, [question]).values()
            assert isinstance(found, DamagedFile)
            assert path.name in str(found)


def test_pending_lineage_stays_pending_over_a_damaged_file(home, known):
    """Once the file is back, the next question finishes it."""
    question = "backward pending.ordered pending.sold"
    (path,) = files_by_kind(home)["lineage"]
    with damaged_home.put_back(home):
        with damaged_home.put_back(home, path):
            path.write_bytes(path.read_bytes()[::-1])
            found = answers(home, [question])
            assert isinstance(found[question], DamagedFile)
            assert answers(home, ["runs"]) == {"runs": known.answers["runs"]}
        assert answers(home, [question]) == {question: known.answers[question]}


def test_doctor_finds_it(home, found_by_doctor):
    """All but a byte of the catalog that holds nothing, such as one of a free page; and anchors, which only tell of
    entries of the log that are gone."""
    chance, missed = random.Random(SEED), []
    left_out = ("catalog.db", "audit.anchors")
    files = {kind: paths for kind, paths in files_by_kind(home).items() if kind not in left_out}
    for _ in range(max(20, FLIPS // 10)):
        with damage(home, files, chance) as done:
            same_key = done.kind == "audit.key" and done.paths[0].exists() and done.is_same_key
            if not same_key and not any(path.name in told for told in found_by_doctor() for path in done.paths):
                missed.append(done)
    assert missed == []


@pytest.mark.parametrize(
    "name",
    ["audit.key", "settings.json", "index/aligned.json", "subjects/*.parquet", "patches/*.parquet", "index/*.parquet"],
)
def test_doctor_tells_of_a_file_that_is_lost(home, found_by_doctor, name):
    paths = [*home.glob(name), *home.glob(f"runs/*/{name}")]
    needed = [path for path in paths if kind_of(path, home) != "patches" or is_needed(home, path)]
    assert needed
    for path in needed:
        with damaged_home.put_back(home, path):
            path.unlink()
            assert any(path.name in told for told in found_by_doctor()), path


def test_verify_does_not_hold_over_damaged_files(home):
    path = next(each for each in sorted(home.glob("runs/*/index/*.parquet")))
    with damaged_home.put_back(home, path), damaged_home.Home.open(home) as opened:
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 4
        path.write_bytes(content)
        verdict = opened.audit.verify(home.parent / "certificate.json")
        assert not verdict.holds
        assert any(path.name in told for told in verdict.incomplete)


def is_needed(home, path):
    with damaged_home.Home.open(home) as opened:
        from lineage_service.audit.home_integrity import needed_paths

        reader = opened._open.reader
        return any(str(path).endswith(each) for run in reader.runs() for each in needed_paths(reader, run.id))
