"""Erasure with --rewrite-sources: the person's rows go from the source files themselves, and a later run reads them."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lineage_service.errors import LineageError
from tests.support.audit_chain import Chain, subjects, texts_in, texts_in_file, values


@pytest.mark.parametrize("snapshot", [True, False])
def test_source_files_are_rewritten_and_read_again(spark, tmp_path: Path, snapshot):
    chain = Chain(tmp_path / "kept", 16, snapshot=snapshot).run("first")
    plan, certificate = tmp_path / "plan.json", tmp_path / "certificate.json"
    before = (chain.folder / "people.csv").read_text().splitlines()
    batches = ([1, 4, 2],) if snapshot else ([1], [4, 2])
    for gone in batches:
        named = [subjects(one)[0] for one in gone]
        document = chain.home.audit.plan_erasure(named, rewrite_sources=True, out=plan)
        assert not any("only read" in told for told in document["not_covered"])
        told = chain.home.audit.apply(plan, out=certificate)
        assert {Path(each["path"]).name for each in told["sources_rewritten"]} >= {"people.csv"}
    fresh = Chain(tmp_path / "fresh", 16, [1, 4, 2], snapshot=snapshot).run("first")
    assert chain.rows() == fresh.rows()
    left = "\n".join(texts_in(place) for place in chain.kept_places())
    left += texts_in_file(chain.folder / "people.csv") + texts_in_file(chain.folder / "orders.parquet")
    assert not [value for one in (1, 4, 2) for value in values(one) if value in left]
    # What stays is as it was, to the letter and in its order.
    assert (chain.folder / "people.csv").read_text().splitlines() == [
        line for line in before if not any(values(one)[1] in line for one in (1, 4, 2))
    ]
    assert (chain.folder / "people.csv").read_bytes() == (fresh.folder / "people.csv").read_bytes()
    mine, its = (pq.read_table(each.folder / "orders.parquet") for each in (chain, fresh))
    assert mine.equals(its)
    assert not list(chain.folder.glob(".*.new"))
    chain.run("first")  # `on_erased: fail` has nothing to say
    assert chain.rows() == fresh.rows()
    rows = chain.home.rows("first.people", reveal=True).to_pylist()
    assert len(rows) == 13


def test_a_file_whose_records_cannot_be_told_is_refused_before_anything_is_done(spark, tmp_path: Path):
    import gzip

    chain = Chain(tmp_path, 8)
    packed = tmp_path / "people.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "people.csv").read_bytes()))
    flow = tmp_path / "first.yml"
    flow.write_text(flow.read_text().replace("people.csv", "people.csv.gz"))
    chain.home.run(flow)
    before = packed.read_bytes()
    with pytest.raises(LineageError, match="cannot be rewritten"):
        chain.home.audit.plan_erasure(subjects(1)[:1], rewrite_sources=True)
    assert packed.read_bytes() == before
