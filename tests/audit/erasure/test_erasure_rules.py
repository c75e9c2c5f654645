"""What workflows say of an erasure, and what follows from it: holds, policies, old runs, persons who come back."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_service import Home
from lineage_service.audit import actor as actors
from lineage_service.audit.cases.case_lifecycle import CaseOptions
from lineage_service.errors import LineageError, NotFound, RunError
from lineage_service.store.home_store import HomeStore
from tests.support.audit_chain import texts_in
from tests.support.erasure_shop import bag

BASE = 8_250_170_000  # ids are long: a short number is found by chance, in the time of a file
CITIES = ("Ulm", "Bonn", "Kiel", "Ulm", "Bonn", "Ulm")


def name(number: int) -> str:
    return f"Person-{number:03d}-Wvu"


def who(number: int) -> str:
    return f"customer={BASE + number}"


class Flow:
    """One workflow in a folder over people and their orders; `sources` are more, `head` is what stands before steps."""

    def __init__(
        self, folder: Path, steps: str, outputs: str, *, people: str = "", orders: str = "", head: str = "",
        more: str = "", without: tuple[int, ...] = (), cities: dict[int, str] | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.plan, self.certificate = folder, folder / "plan.json", folder / "certificate.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.write(without, cities or {})
        (folder / "flow.yml").write_text(
            f"version: 1\nname: flow\n{head}\nsources:\n"
            f"  people: {{path: people.parquet, subject: {{customer: id}}, pii: [name]{people}}}\n"
            f"  orders: {{path: orders.parquet, subject: {{customer: customer}}{orders}}}\n{more}\n"
            f"steps:\n{steps}\noutputs:\n{outputs}\n"
        )
        self.home = Home.open(folder / "home")

    def write(self, without: tuple[int, ...] = (), cities: dict[int, str] | None = None) -> None:
        """People 0 to 5, of whom each has as many orders as their number."""
        people = [
            {"id": BASE + n, "name": name(n), "city": (cities or {}).get(n, city)}
            for n, city in enumerate(CITIES)
            if n not in without
        ]
        orders = [{"customer": BASE + n, "amount": 10 * n + each} for n in range(6) for each in range(n)]
        kept = [each for each in orders if each["customer"] - BASE not in without]
        pq.write_table(pa.Table.from_pylist(people), self.folder / "people.parquet")
        pq.write_table(pa.Table.from_pylist(kept), self.folder / "orders.parquet")

    def run(self, **options: Any) -> "Flow":
        self.home.run(self.folder / "flow.yml", **options)
        return self

    def erase(self, *numbers: int, **options: Any) -> dict[str, Any]:
        """Plans, applies and verifies; the certificate."""
        self.home.audit.plan_erasure([who(number) for number in numbers], out=self.plan, **options)
        return self.apply([name(number) for number in numbers])

    def apply(self, values: list[str]) -> dict[str, Any]:
        told = self.home.audit.apply(self.plan, out=self.certificate)
        verdict = self.home.audit.verify(self.certificate, values=values)
        assert verdict.holds, verdict.to_json()
        assert self.home.audit.verify_log().ok
        return told

    def rows(self, dataset: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.home.rows(dataset, reveal=True).to_pylist()
        return [{key: value for key, value in row.items() if key != "_rid"} for row in found]

    def bags(self) -> dict[str, list[str]]:
        listed = self.home.datasets().to_pylist()
        return {
            each["dataset"]: bag(self.home.rows(each["dataset"], reveal=True).to_pylist())
            for each in listed
            if each["kind"] != "source"
        }

    def left(self, number: int) -> list[str]:
        """What lies of a person in the home and in published copies."""
        places = [self.folder / "home", self.folder / "out"]
        text = "".join(texts_in(place) for place in places if place.exists())
        return [value for value in (name(number), str(BASE + number)) if value in text]


def told_of(document: dict[str, Any], dataset: str) -> dict[str, Any]:
    (found,) = [each for run in document["runs"] for each in run["datasets"] if each["dataset"] == dataset]
    return dict(found)


PER_CITY = "  - {name: per_city, op: aggregate, input: people, by: [city], measures: {n: count(*), first: min(name)}}"
SAME = "  - {name: same, op: filter, input: people, where: id > 0}"


# --- holds ----------------------------------------------------------------------------------------------------


def test_a_legal_hold_retains_rows_and_says_on_what_ground(spark, tmp_path):
    until = datetime.now(UTC).date() + timedelta(days=3)
    steps = f"{SAME}\n  - {{name: bills, op: filter, input: orders, where: amount >= 0}}"
    hold = f", legal_hold: {{ground: 'tax law 147', until: {until}}}"
    flow = Flow(tmp_path, steps, "  same:\n  bills:", orders=hold).run()
    told = flow.erase(3)
    assert told["retained"] == [
        {"dataset": "flow.orders", "run": told["runs"][0]["superseded"], "rows": 3, "ground": "tax law 147",
         "until": str(until)}
    ]  # fmt: skip
    assert any("legal hold retains (tax law 147)" in each for each in told["not_covered"])
    assert len(flow.rows("bills")) == 15 and len(flow.rows("same")) == 5
    assert flow.left(3) == [str(BASE + 3)]  # of the held orders
    flow.write(without=(3,))
    flow.run()  # the hold lets them be in the orders again


def test_a_legal_hold_that_is_over_retains_nothing(spark, tmp_path):
    over = datetime.now(UTC).date() - timedelta(days=1)
    flow = Flow(tmp_path, "  - {name: bills, op: filter, input: orders, where: amount >= 0}", "  bills:",
                people=", snapshot: true", orders=f", legal_hold: {{ground: tax law, until: {over}}}, snapshot: true")  # fmt: skip
    told = flow.run().erase(3)
    assert told["retained"] == [] and len(flow.rows("bills")) == 12
    assert not flow.left(3)


def test_where_everything_is_held_there_is_no_plan(spark, tmp_path):
    hold = ", legal_hold: {ground: tax law}"
    flow = Flow(tmp_path, SAME, "  same:", people=hold, orders=hold).run()
    with pytest.raises(NotFound, match="every row of the person is under a legal hold"):
        flow.home.audit.plan_erasure(who(3))


# --- policies -------------------------------------------------------------------------------------------------


def test_on_erasure_delete_takes_rows_of_others_with_it(spark, tmp_path):
    flow = Flow(tmp_path, PER_CITY, "  per_city: {on_erasure: delete}").run()
    told = told_of(flow.erase(1), "flow.per_city")
    assert (told["delete"], told["recompute"], told["reason"]) == (1, 0, "on_erasure: delete")
    assert {row["city"]: row["n"] for row in flow.rows("per_city")} == {"Ulm": 3, "Kiel": 1}


def test_on_erasure_keep_keeps_groups_that_are_large_enough(spark, tmp_path):
    steps = "  - {name: per_city, op: aggregate, input: people, by: [city], measures: {n: count(*)}}"
    keep = "{on_erasure: keep, keep: {ground: statistics, min_group: 3}}"
    flow = Flow(tmp_path, steps, f"  per_city: {keep}").run()
    told = told_of(flow.erase(0), "flow.per_city")
    assert told["retain"] == 1 and "keep (statistics)" in told["reason"]
    assert {row["city"]: row["n"] for row in flow.rows("per_city")} == {"Ulm": 3, "Bonn": 2, "Kiel": 1}
    flow.erase(1)  # of two: too few to keep
    assert {row["city"]: row["n"] for row in flow.rows("per_city")} == {"Ulm": 3, "Kiel": 1}


def test_rows_that_appear_are_told_and_are_those_of_a_run_without_the_person(spark, tmp_path):
    steps = """
  - {name: silent, op: join, how: anti, left: people, right: orders, on: "name = concat('Person-', lpad(string(amount % 10), 3, '0'), '-Wvu')"}
  - {name: alone, op: aggregate, input: people, by: [city], measures: {n: count(*)}, having: n = 1}
  - {name: top, op: limit, input: orders, n: 3, by: ["amount desc"]}"""
    flow = Flow(tmp_path / "a", steps, "  silent:\n  alone:\n  top:").run()
    flow.home.audit.plan_erasure(who(5), out=flow.plan)
    plan = json.loads(flow.plan.read_text())
    assert told_of(plan, "flow.silent")["insert"] == 1
    assert told_of(plan, "flow.top")["delete"] == 3 and told_of(plan, "flow.top")["insert"] == 3
    flow.apply([name(5)])
    flow.erase(1)
    assert {row["city"] for row in flow.rows("alone")} == {"Bonn", "Kiel"}
    fresh = Flow(tmp_path / "b", steps, "  silent:\n  alone:\n  top:", without=(1, 5)).run()
    assert flow.bags() == fresh.bags()


# --- old runs -------------------------------------------------------------------------------------------------


def test_two_runs_of_a_workflow_are_both_superseded_and_keep_their_order(spark, tmp_path):
    flow = Flow(tmp_path, PER_CITY, "  per_city: {path: out/per_city}", people=", snapshot: true",
                orders=", snapshot: true").run()  # fmt: skip
    flow.write(cities={0: "Rom"})
    flow.run()
    later, earlier = [each["run_id"] for each in flow.home.runs().to_pylist()]
    told = flow.erase(4)
    assert [each["superseded"] for each in told["runs"]] == [earlier, later]
    new = [each["by"] for each in told["runs"]]
    assert [each["run_id"] for each in flow.home.runs().to_pylist()] == [new[1], new[0]]
    assert {row["city"] for row in flow.rows("per_city")} == {"Ulm", "Bonn", "Kiel", "Rom"}
    assert {row["city"] for row in flow.rows(f"per_city@{new[0]}")} == {"Ulm", "Bonn", "Kiel"}
    published = pq.read_table(tmp_path / "out" / "per_city").to_pylist()
    assert sorted(row["city"] for row in published) == ["Bonn", "Kiel", "Rom", "Ulm"]
    with pytest.raises(NotFound, match=f"was superseded by run '{new[1]}'"):
        flow.home.rows(f"per_city@{later}")
    assert not flow.left(4)
    flow.erase(3)
    assert not flow.left(3) and not flow.left(4)
    assert {row["city"]: row["n"] for row in flow.rows("per_city")} == {"Rom": 1, "Bonn": 1, "Kiel": 1, "Ulm": 1}


def test_an_old_run_whose_source_changed_since_loses_rows_and_says_why(spark, tmp_path):
    flow = Flow(tmp_path, PER_CITY, "  per_city:").run()
    flow.write(cities={0: "Rom"})
    flow.run()
    later, earlier = [each["run_id"] for each in flow.home.runs().to_pylist()]
    told = flow.erase(4)
    by = {each["superseded"]: each for each in told["runs"]}
    (old,) = [each for each in by[earlier]["datasets"] if each["dataset"] == "flow.per_city"]
    assert "its sources have changed since" in old["reason"] and (old["delete"], old["recompute"]) == (1, 0)
    (new,) = [each for each in by[later]["datasets"] if each["dataset"] == "flow.per_city"]
    assert (new["delete"], new["recompute"]) == (0, 1)
    old_rows = flow.rows(f"per_city@{by[earlier]['by']}")
    assert {row["city"]: row["n"] for row in old_rows} == {"Ulm": 3, "Kiel": 1}
    assert not [value for value in flow.left(4) if value == name(4)]


def test_rows_that_a_refresh_left_out_go_from_shared_files_too(spark, tmp_path):
    flow = Flow(tmp_path, f"{SAME}\n{PER_CITY}", "  same:\n  per_city:", people=", snapshot: true",
                orders=", snapshot: true").run()  # fmt: skip
    flow.home.refresh("people", removed=f"id = {BASE + 2}")
    flow.home.refresh("people", changed=[{"_rid": 1, "city": "Rom"}])
    told = flow.erase(2, 5)
    assert len(told["runs"]) == 3
    assert not flow.left(2) and not flow.left(5)
    assert {row["city"]: row["n"] for row in flow.rows("per_city")} == {"Ulm": 2, "Rom": 1, "Bonn": 1}


def test_a_refresh_after_an_erasure_does_not_bring_them_back(spark, tmp_path):
    """The source's own file still has their rows, and a refresh without more looks at the files."""
    flow = Flow(tmp_path, SAME, "  same:").run()
    flow.erase(2)
    flow.home.refresh("flow")
    assert len(flow.rows("same")) == 5
    with pytest.raises(RunError, match="a person who was erased is in the data again, with 1 row"):
        flow.home.refresh("people", added=[{"id": BASE + 2, "name": name(2), "city": "Ulm"}])
    flow.write(cities={2: "Rom", 3: "Rom"})
    with pytest.raises(RunError, match="a person who was erased is in the data again"):
        flow.home.refresh("flow")
    assert len(flow.rows("same")) == 5
    flow.write(cities={3: "Rom"}, without=(2,))
    flow.home.refresh("flow")
    assert [row["city"] for row in flow.rows("same")].count("Rom") == 1


# --- they come back -------------------------------------------------------------------------------------------

CSV = """  mails: {{path: mails.csv, options: {{header: true}}, schema: "id BIGINT, mail STRING", subject: {{customer: id}},
          pii: [mail], on_erased: {0}}}"""


def coming_back(folder: Path, on_erased: str) -> Flow:
    steps = f"{SAME}\n  - {{name: known, op: filter, input: mails, where: id > 0}}"
    folder.mkdir(exist_ok=True)
    lines = [f"{BASE + n},{name(n)}@mail\n" for n in range(6)]
    (folder / "mails.csv").write_text("id,mail\n" + "".join(lines))
    said = f", on_erased: {on_erased}"
    flow = Flow(folder, steps, "  same:\n  known:", people=said, orders=said, more=CSV.format(on_erased)).run()
    flow.erase(2)
    assert not flow.left(2)
    return flow


def test_a_refresh_leaves_them_out_where_sources_say_so(spark, tmp_path):
    flow = coming_back(tmp_path, "drop")
    flow.write(cities={2: "Rom", 3: "Rom"})
    lines = (tmp_path / "mails.csv").read_text().replace(f"{name(3)}@mail", f"{name(3)}@new")
    (tmp_path / "mails.csv").write_text(lines)
    report = flow.home.refresh("flow")
    assert [told for told in report.warnings if "left out" in told]
    assert [row["city"] for row in flow.rows("same")].count("Rom") == 1
    assert len(flow.rows("same")) == 5 and len(flow.rows("known")) == 5
    assert not flow.left(2)


def test_they_come_back_and_the_run_fails(spark, tmp_path):
    flow = coming_back(tmp_path, "fail")
    before = len(flow.home.runs().to_pylist())
    with pytest.raises(RunError) as error:
        flow.run()
    told = str(error.value)
    for source in ("people", "orders", "mails"):
        assert f"source '{source}': a person who was erased is in the data again" in told
    assert name(2) not in told and str(BASE + 2) not in told
    assert len(flow.home.runs().to_pylist()) == before
    flow.home.gc()
    assert not flow.left(2)


def test_they_come_back_and_are_left_out(spark, tmp_path):
    flow = coming_back(tmp_path, "drop")
    report = flow.home.run(flow.folder / "flow.yml")
    assert "they were left out" in str(report.warnings)
    assert len(flow.rows("same")) == 5 and len(flow.rows("known")) == 5
    assert not flow.left(2)
    assert flow.home.audit.verify(flow.certificate, values=[name(2)]).holds
    flow.erase(4)  # over runs that read files without some of their rows
    assert len(flow.rows("same")) == 4 and len(flow.rows("known")) == 4
    assert not flow.left(2) and not flow.left(4)


def test_they_come_back_and_are_read_all_the_same(spark, tmp_path):
    flow = coming_back(tmp_path, "warn")
    report = flow.home.run(flow.folder / "flow.yml")
    assert "they were read nevertheless" in str(report.warnings)
    assert len(flow.rows("same")) == 6
    verdict = flow.home.audit.verify(flow.certificate, values=[name(2)])
    assert not verdict.holds and verdict.found
    flow.erase(2)
    assert len(flow.rows("same")) == 5


def test_a_run_that_was_at_work_meanwhile_is_not_committed(spark, tmp_path, monkeypatch):
    flow = Flow(tmp_path, SAME, "  same: {path: out/same}", people=", snapshot: true", orders=", snapshot: true").run()
    commit = HomeStore.commit

    def late(home: Home, *given: Any) -> None:
        monkeypatch.setattr(HomeStore, "commit", commit)
        flow.home.audit.plan_erasure(who(2), out=flow.plan)
        flow.home.audit.apply(flow.plan, out=flow.certificate)
        commit(home, *given)

    monkeypatch.setattr(HomeStore, "commit", late)
    other = Home.open(flow.folder / "home")
    with pytest.raises(LineageError, match="data was erased or corrected while it was running"):
        other.run(flow.folder / "flow.yml")
    other.close()
    assert len(flow.home.runs().to_pylist()) == 1
    assert len(flow.rows("same")) == 5
    assert pq.read_table(tmp_path / "out" / "same").num_rows == 5
    assert not flow.left(2)
    assert flow.home.audit.verify(flow.certificate, values=[name(2)]).holds


def test_verify_knows_columns_that_are_only_called_like_a_persons(spark, tmp_path):
    pq.write_table(pa.table({"id": [BASE + 2, BASE + 3], "customer": [1, 2]}), tmp_path / "products.parquet")
    steps = f"{SAME}\n  - {{name: goods, op: project, input: products, columns: [id]}}"
    sources = "  products: {path: products.parquet, snapshot: true}"
    outputs = "  same: {path: out/same}\n  goods: {path: out/goods}"
    flow = Flow(tmp_path, steps, outputs, more=sources).run()
    flow.erase(2)  # holds, though product 2 has the person's number
    verdict = flow.home.audit.verify(flow.certificate)
    assert "not about persons: customer of 'flow.products', id of 'flow.goods', id of 'flow.products'" in str(
        verdict.not_covered
    )
    left = flow.folder / "home" / "left.parquet"  # of which the catalog knows nothing
    pq.write_table(pa.table({"id": [BASE + 2]}), left)
    assert "column 'id' of 'left.parquet'" in flow.home.audit.verify(flow.certificate).found


def test_verify_looks_at_columns_computed_from_a_persons_whatever_they_are_called(spark, tmp_path):
    """A column that is personal in one version of a dataset counts as personal in all."""
    steps = f"{SAME}\n  - {{name: goods, op: project, input: products, columns: {{id: id}}}}"
    pq.write_table(pa.table({"id": [BASE + 2, BASE + 3]}), tmp_path / "products.parquet")
    more = "  products: {path: products.parquet, snapshot: true}"
    flow = Flow(tmp_path, steps, "  same:\n  goods:", more=more).run()
    text = (flow.folder / "flow.yml").read_text()
    (flow.folder / "flow.yml").write_text(text.replace("input: products", "input: people"))
    flow.run().home.audit.plan_erasure(who(2), out=flow.plan)
    flow.home.audit.apply(flow.plan, out=flow.certificate)
    verdict = flow.home.audit.verify(flow.certificate)
    assert "id of 'flow.products'" in str(verdict.not_covered)
    assert "goods" not in str(verdict.not_covered) and "goods" in str(verdict.found)


# --- corrections ----------------------------------------------------------------------------------------------


def test_a_corrected_value_is_everywhere_and_the_old_one_nowhere(spark, tmp_path):
    steps = f"{SAME}\n{PER_CITY}\n  - {{name: paid, op: join, left: people, right: orders, on: id = customer}}"
    outputs = "  same: {path: out/same}\n  per_city: {path: out/per_city}\n  paid:"
    made = {"people": ", snapshot: true", "orders": ", snapshot: true"}
    flow = Flow(tmp_path / "a", steps, outputs, cities={3: "Wrongville-xyz"}, **made).run()
    flow.home.query("SELECT city, count(*) AS n FROM flow.same GROUP BY city", save="cities", reveal=True)
    flow.home.audit.plan_rectification(who(3), {"city": "Rightham-abc"}, out=flow.plan)
    text = flow.plan.read_text()
    assert "Rightham" not in text and "Wrongville" not in text and '"city"' in text
    told = flow.apply(["Wrongville-xyz"])
    assert told["certificate_of"] == "rectification" and told_of(told, "flow.people")["recompute"] == 1
    fresh = Flow(tmp_path / "b", steps, outputs, cities={3: "Rightham-abc"}, **made).run()
    fresh.home.query("SELECT city, count(*) AS n FROM flow.same GROUP BY city", save="cities", reveal=True)
    assert flow.bags() == fresh.bags()
    places = "".join(texts_in(flow.folder / place) for place in ("home", "out"))
    assert "Wrongville" not in places and "Rightham-abc" in places
    assert not (flow.folder / "home" / "plans" / told["plan_id"]).exists()
    flow.write()
    flow.run()  # a corrected person is not one who was erased


def test_values_of_a_plan_that_is_never_applied_go_with_the_person(spark, tmp_path):
    flow = Flow(tmp_path, SAME, "  same:").run()
    flow.home.audit.plan_rectification(who(3), {"name": "Newname-Qrs"}, out=tmp_path / "other.json")
    assert "Newname-Qrs" in texts_in(tmp_path / "home")
    flow.erase(3)
    assert "Newname-Qrs" not in texts_in(tmp_path / "home")
    with pytest.raises(RunError, match="no longer fits"):
        flow.home.audit.apply(tmp_path / "other.json")


@pytest.mark.parametrize("values", [{}, {"town": "Ulm"}])
def test_a_correction_of_nothing_or_of_a_column_that_is_not_there(spark, tmp_path, values):
    flow = Flow(tmp_path, SAME, "  same:").run()
    with pytest.raises(LineageError, match=r"say what is to be corrected|no source with rows of the person has"):
        flow.home.audit.plan_rectification(who(3), values)


# --- cases, persons -------------------------------------------------------------------------------------------


def test_four_eyes_recipients_and_the_first_paragraph(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(actors, "_user", lambda: "ada")
    monkeypatch.delenv("SMOKE_ACTOR", raising=False)
    flow = Flow(tmp_path, SAME, "  same:", head="privacy: {purpose: Tests, recipients: [Bank, Auditor Ltd]}").run()
    case = CaseOptions(request="DSR-7")
    flow.home.audit.plan_erasure(who(1), four_eyes=True, case=case, out=flow.plan)
    with pytest.raises(LineageError, match="approve"):
        flow.home.audit.apply(flow.plan)
    with pytest.raises(LineageError):
        flow.home.audit.approve(flow.plan)
    assert len(flow.rows("same")) == 6
    monkeypatch.setattr(actors, "_user", lambda: "bob")
    flow.home.audit.approve(flow.plan)
    told = flow.apply([name(1)])
    assert next(iter(told)) == "not_covered" and told["not_covered"]
    assert next(iter(json.loads(flow.certificate.read_text()))) == "not_covered"
    assert told["recipients"] == ["Auditor Ltd", "Bank"] and told["request"] == "DSR-7"
    (row,) = flow.home.audit.requests(all=True).to_pylist()
    assert row["status"] == "done"
    assert len(flow.rows("same")) == 5


def test_rows_about_two_persons_and_of_several_kinds(spark, tmp_path):
    letters = [{"sender": name(n), "receiver": name((n + 1) % 6), "text": f"letter {n}"} for n in range(6)]
    pq.write_table(pa.Table.from_pylist(letters), tmp_path / "letters.parquet")
    more = "  letters: {path: letters.parquet, subject: {sender: sender, receiver: receiver}, snapshot: true}"
    steps = f"{SAME}\n  - {{name: sent, op: filter, input: letters, where: text is not null}}"
    flow = Flow(tmp_path, steps, "  same:\n  sent:", more=more, people=", snapshot: true",
                orders=", snapshot: true").run()  # fmt: skip
    flow.home.audit.plan_erasure([who(2), f"sender={name(2)}"], out=flow.plan)
    told = flow.apply([])
    assert set(told["subjects"]) == {"customer", "sender"}
    assert [row["text"] for row in flow.rows("sent")] == ["letter 0", "letter 1", "letter 3", "letter 4", "letter 5"]
    flow.home.audit.plan_erasure([f"receiver={name(2)}"], out=flow.plan)
    flow.apply([name(2)])
    assert [row["text"] for row in flow.rows("sent")] == ["letter 0", "letter 3", "letter 4", "letter 5"]
    assert not flow.left(2)
    assert len(flow.rows("same")) == 5
