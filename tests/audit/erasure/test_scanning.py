"""What `audit verify` looks for in files: numbers count where they are a user's, not where they are row ids of ours."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service.audit.erasure.residue_scan import ResidueScan, SearchedValues

WANTED = SearchedValues(frozenset(["7"]), columns=frozenset(["a", "person"]))


def found_in(home, name, table):
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    scan = ResidueScan(WANTED)
    scan.folder(home, lambda each: str(each.relative_to(home)))
    return scan.found


@pytest.mark.parametrize(
    "name",
    [
        "runs/x/index/0.backward.parquet",
        "runs/x/index/0.forward.parquet",
        "runs/x/index/0.forward/part-0.parquet",
        "runs/x/patches/0.parquet",
        "runs/x/subjects/0.persons.parquet",
    ],
)
def test_row_ids_are_not_taken_for_a_persons_number(tmp_path, name):
    assert found_in(tmp_path, name, pa.table({"a": [6, 7], "person": [7, 8]})) == []


@pytest.mark.parametrize(
    "name",
    [
        "runs/x/data/subjects/part-0.parquet",
        "runs/x/sources/patches/part-0.parquet",
        "runs/x/index/monthly.parquet",
        "elsewhere.parquet",
    ],
)
def test_numbers_of_users_are_found_whatever_their_dataset_is_called(tmp_path, name):
    told = found_in(tmp_path, name, pa.table({"a": [6, 7]}))
    assert f"column 'a' of '{name}'" in told


def test_texts_are_looked_for_in_files_of_ours_too(tmp_path):
    assert found_in(tmp_path, "runs/x/subjects/0.persons.parquet", pa.table({"hash": ["7"]}))
