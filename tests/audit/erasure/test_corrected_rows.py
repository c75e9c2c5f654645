"""Rows stay the same rows whatever audit does to them: corrected at a person's request, read over links, or left out
since a person was erased. Workflow `a` sums a file, `b` reads it in another way and joins the sums, `c` in a third."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.errors import QuestionError
from lineage_service.store.versions import VersionFile, true_path

ROWS = [(0, 0), (1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]  # id and k; v is id
CSV = 'options: {header: true}, schema: "id BIGINT, k BIGINT, v BIGINT"'
READINGS = {
    "in place": ("d/src.parquet", "d/src.parquet", "d/*.parquet, snapshot: true"),
    "snapshot": ("d/src.parquet, snapshot: true", "d/*.parquet", "d/src.parquet, snapshot: true, rename: {k: key}"),
    "csv": (f"d/src.csv, {CSV}", f"d/src.csv, {CSV}", f"'d/*.csv', {CSV}"),
    "link": ("d/src.parquet", "link/src.parquet", "d/again.parquet"),
}
GROUP = {rid: {other for other, k in ROWS if k == mine} for rid, mine in ROWS}


class Flows:
    def __init__(self, folder, reading: str, more: str = "") -> None:
        self.folder, self.home = folder, Home.open(folder / "home")
        (folder / "d").mkdir()
        self.write(ROWS)
        (folder / "link").symlink_to("d")
        (folder / "d" / "again.parquet").symlink_to("src.parquet") if reading == "link" else None
        a, b, c = READINGS[reading]
        self.flow("a", f"src: {{path: {a}, subject: {{person: id}}{more}}}",
                  "{name: tot, op: aggregate, input: src, by: [k], measures: {n: sum(v)}}", "tot")  # fmt: skip
        self.flow("b", f"raw: {{path: {b}, rename: {{v: w}}}}, tot: {{output: a.tot}}",
                  "{name: j, op: join, left: raw, right: tot, using: [k]}", "j")  # fmt: skip
        self.flow("c", f"every: {{path: {c}}}", "{name: ids, op: project, input: every, columns: [id]}", "ids")

    def write(self, rows) -> None:
        columns = {"id": [row[0] for row in rows], "k": [row[1] for row in rows], "v": [row[0] for row in rows]}
        pq.write_table(pa.table(columns), self.folder / "d" / "src.parquet")
        lines = ["id,k,v", *(f"{row[0]},{row[1]},{row[0]}" for row in rows)]
        (self.folder / "d" / "src.csv").write_text("\n".join(lines) + "\n")

    def flow(self, name, sources, step, output) -> None:
        text = f"version: 1\nname: {name}\nsources: {{{sources}}}\nsteps: [{step}]\noutputs: {{{output}: }}\n"
        (self.folder / f"{name}.yml").write_text(text)

    def run(self, *names: str) -> None:
        for name in names:
            self.home.run(self.folder / f"{name}.yml")

    def applied(self, plan) -> None:
        self.home.audit.apply(self.folder / "plan.json", out=self.folder / "certificate.json")
        (self.folder / "plan.json").unlink()

    def corrected(self, person: int, value: int) -> None:
        out = self.folder / "plan.json"
        self.applied(self.home.audit.plan_rectification(f"person={person}", {"v": str(value)}, out=out))

    def erased(self, person: int, **how) -> None:
        out = self.folder / "plan.json"
        self.applied(self.home.audit.plan_erasure(f"person={person}", out=out, **how))

    def ids(self, dataset: str) -> dict[int, int]:
        """Rows by what they are: a source's record, or the row of `tot` (by k) and `j` (by the record joined)."""
        return {row["_rid"]: row["k" if dataset == "a.tot" else "id"] for row in self.home.rows(dataset, reveal=True)}

    def check(self, held: set[int]) -> None:
        """Every pair of datasets in both directions, where the sources hold these records."""
        behind = {
            "b.j": {rid: (GROUP[rid] & held) | {rid} for rid in held},
            "a.tot": {k: {rid for rid, mine in ROWS if mine == k} & held for k in (0, 1, 2)},
            "c.ids": {rid: {rid} for rid in held},
        }
        for upper, expected in behind.items():
            rows = self.ids(upper)
            for lower in ("a.src", "b.raw", "c.every"):
                records = self.ids(lower)
                wanted = {(row, rid) for row, rids in expected.items() for rid in rids if rid in records.values()}
                wanted = {pair for pair in wanted if pair[0] in rows.values()}
                back = self.home.backward(upper, to=lower, all=True, pairs=True).to_pylist()
                assert {(rows[each["out_rid"]], records[each["rid"]]) for each in back} == wanted, (upper, lower)
                ahead = self.home.forward(lower, to=upper, all=True, pairs=True).to_pylist()
                assert {(rows[each["out_rid"]], records[each["rid"]]) for each in ahead} == wanted, (upper, lower)


@pytest.fixture
def flows(spark, tmp_path):
    made = []

    def make(*args):
        made.append(Flows(tmp_path, *args))
        return made[0]

    yield make
    made[0].home.close()


@pytest.mark.parametrize("reading", READINGS)
def test_rows_that_were_corrected_are_the_same_rows(flows, reading):
    made = flows(reading)
    made.run("a", "b", "c")
    everybody = {rid for rid, _ in ROWS}
    made.check(everybody)
    made.corrected(4, 100)
    made.check(everybody)
    values = {row["id"]: row["w"] for row in made.home.rows("b.raw")}
    assert values == {0: 0, 1: 1, 2: 2, 3: 3, 4: 100, 5: 5}
    made.corrected(4, 101)
    made.erased(3)
    made.check(everybody - {3})
    found = {each["dataset"] for each in made.home.audit.access("person=4").document["data"]}
    missing = {"a.src", "b.raw", "c.every", "a.tot", "b.j", "c.ids"} - found
    assert len(missing) == (reading == "csv"), "a.src and c.every are one version there, which is told once"
    assert missing <= {"a.src", "c.every"}
    made.erased(4, rewrite_sources=True)
    made.check(everybody - {3, 4})
    assert {row["id"] for dataset in ("b.raw", "b.j", "c.every") for row in made.home.rows(dataset)} == {0, 1, 2, 5}
    assert made.home.audit.verify(made.folder / "certificate.json", values=["100"]).holds
    path = made.folder / "d"
    left = pq.read_table(path / "src.parquet").column("id").to_pylist()
    if reading == "csv":
        left = [int(line.split(",")[0]) for line in (path / "src.csv").read_text().splitlines()[1:]]
    assert left == [0, 1, 2, 3, 5], "the record was cut out of the file, though its row was corrected before"
    made.corrected(5, 200)
    made.check(everybody - {3, 4})
    assert (made.folder / "link").is_symlink()


def test_a_row_that_a_refresh_changed_is_no_longer_the_record(flows):
    made = flows("in place")
    made.run("a", "b", "c")
    made.corrected(4, 100)
    made.home.refresh("a.src", changed=[{"_rid": 4, "v": 7}])
    pairs = made.home.backward("a.tot", to="b.raw", all=True, pairs=True).to_pylist()
    assert {each["rid"] for each in pairs} == {0, 1, 2, 3, 5}


@pytest.mark.parametrize("reading", ["in place", "snapshot", "csv"])
def test_rows_left_out_since_a_person_was_erased(flows, reading):
    made = flows(reading, ", on_erased: drop")
    made.run("a")
    made.erased(3)
    made.run("a", "b", "c")
    rows, records = made.ids("b.j"), made.ids("b.raw")
    pairs = made.home.backward("b.j", to="b.raw", all=True, pairs=True).to_pylist()
    wanted = {(row, rid) for row, rids in GROUP.items() for rid in (rids - {3}) | {row}}
    assert {(rows[each["out_rid"]], records[each["rid"]]) for each in pairs} == wanted
    assert made.home.forward("c.every", to="a.tot", rid=3, count=True).count() == 0
    assert made.home.forward("c.every", to="a.tot", rid=4, count=True).count() == 1


def test_links_to_a_file_are_followed_by_what_if(flows):
    made = flows("link")
    made.run("a", "b", "c")
    changes = made.home.what_if(without="a.src", rid=4, on="b.j").to_pylist()
    assert {row["id"] for row in changes if row["change"] == "appears"} == {3, 5}
    run_id = made.home.runs().to_pylist()[-1]["run_id"]  # of a, the first
    (row,) = [rid for rid, record in made.ids("b.j").items() if record == 4]
    ways = {"semantics": "how", "evaluate": "boolean"}
    for name in (f"a.src@{run_id}", f"src@{run_id[:6]}", "a.src"):
        answer = made.home.backward("b.j", rid=row, without={name: 4}, **ways)
        assert [each["survives"] for each in answer.to_pylist()] == [False], name
    with pytest.raises(QuestionError, match="none of the datasets that are reached"):
        made.home.backward("b.j", rid=row, without={"a.src@ffff": 4}, **ways)


def test_links_of_versions_that_do_not_know_them(tmp_path):
    """Of older homes; a file that had no link when it was read is itself, whatever its path has become."""
    (tmp_path / "moved").mkdir()
    (tmp_path / "d").symlink_to("moved")
    path = str(tmp_path / "d" / "x.parquet")
    old, known, over = (VersionFile(path, 1, 1, "", 1, 0, {}, real=real) for real in (None, "", "/data/x.parquet"))
    assert true_path(old) == str(tmp_path / "moved" / "x.parquet")
    assert (true_path(known), true_path(over)) == (path, "/data/x.parquet")
    assert true_path(VersionFile("runs/r/x.parquet", 1, 1, "", 1, 0, {})) == "runs/r/x.parquet"


def test_survival_is_not_told_where_lineage_is_cut(flows):
    made = flows("in place")
    text = (made.folder / "a.yml").read_text()
    (made.folder / "a.yml").write_text(f"{text}privacy: {{purpose: x, retention_days: 0}}\n")
    made.run("a", "b")
    ways = {"rid": 0, "semantics": "how", "evaluate": "boolean", "without": {"b.raw": 1}}
    made.home.backward("b.j", **ways).to_pylist()
    made.home.gc(retention=True)
    with pytest.raises(QuestionError, match="whether rows survive the loss of others cannot be determined"):
        made.home.backward("b.j", **ways)
