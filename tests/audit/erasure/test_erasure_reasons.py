"""What plans, certificates and verdicts give as reasons: each is true of the rows that it is said of."""

import json

import pytest
from lineage_cli.erasure_text import certificate_lines, plan_lines

from lineage_service.audit.erasure.erasure_verification import Verdict, format_verdict
from lineage_service.audit.erasure.supersession import CHANGED_SOURCES
from tests.audit.erasure.test_erasure_rules import PER_CITY, SAME, Flow, name, told_of, who

# Persons 0, 3 and 5 live in Ulm, 1 and 4 in Bonn, 2 alone in Kiel.
CHANCE = "  - {name: picked, op: aggregate, input: people, by: [city], measures: {some: first(name)}}"
OTHER_ROWS = "step 'picked' may give other rows each time it is computed"


def planned(flow: Flow, number: int) -> dict:
    flow.home.audit.plan_erasure(who(number), out=flow.plan)
    return json.loads(flow.plan.read_text())


def line_of(document: dict, dataset: str) -> str:
    lines = plan_lines(document) if "certificate_of" not in document else certificate_lines(document)
    (line,) = [line.strip() for line in lines if line.strip().startswith(f"{dataset}:")]
    return line


def test_a_row_that_nobody_else_is_in_needs_no_reason(spark, tmp_path):
    flow = Flow(tmp_path, CHANCE, "  picked:").run()
    told = told_of(plan := planned(flow, 2), "flow.picked")
    assert (told["delete"], told["recompute"], told["insert"]) == (1, 0, 0) and "reason" not in told
    assert line_of(plan, "flow.picked") == "flow.picked: 1 deleted"
    # Where others are in it, all rows are computed anew, and that is said of all and not of the deleted.
    told = told_of(plan := planned(flow, 1), "flow.picked")
    assert (told["delete"], told["recompute"]) == (0, 1) and "reason" not in told
    assert told["all_because"] == OTHER_ROWS
    assert line_of(plan, "flow.picked") == (f"flow.picked: 1 recomputed; all rows are recomputed: {OTHER_ROWS}")


def test_a_run_whose_sources_changed(spark, tmp_path):
    flow = Flow(tmp_path, PER_CITY, "  per_city:").run()
    flow.write(cities={0: "Rom"})
    flow.run()
    earlier = flow.home.runs().to_pylist()[1]["run_id"]

    def of_earlier(plan: dict) -> dict:
        (run,) = [each for each in plan["runs"] if each["run"] == earlier]
        return {"runs": [run]}

    told = told_of(of_earlier(planned(flow, 4)), "flow.per_city")
    assert (told["way"], told["delete"], told["reason"]) == ("deleted", 1, CHANGED_SOURCES)
    told = told_of(of_earlier(planned(flow, 2)), "flow.per_city")
    assert (told["way"], told["delete"]) == ("deleted", 1) and "reason" not in told, "nobody else was in it"


def test_what_outputs_say(spark, tmp_path):
    keep = "{step: kept, on_erasure: keep, keep: {ground: statistics, min_group: 2}}"
    kept = "  - {name: kept, op: aggregate, input: people, by: [city], measures: {n: count(*)}}"
    flow = Flow(tmp_path, f"{PER_CITY}\n{kept}", f"  per_city: {{on_erasure: delete}}\n  stay: {keep}").run()
    plan = planned(flow, 0)
    assert told_of(plan, "flow.per_city")["reason"] == "on_erasure: delete"
    stay = told_of(plan, "flow.stay")
    assert (stay["delete"], stay["retain"]) == (0, 1)
    assert stay["reason"] == "on_erasure: keep (statistics); rows of fewer than 2 persons are deleted"
    stay = told_of(planned(flow, 2), "flow.stay")
    assert (stay["delete"], stay["retain"]) == (1, 0) and "fewer than 2 persons" in stay["reason"]


def test_a_query_that_cannot_be_asked_again(spark, tmp_path, monkeypatch):
    from lineage_service.audit.erasure import saved_query_rerun as saved_again
    from lineage_service.errors import QuestionError

    flow = Flow(tmp_path, SAME, "  same:").run()
    flow.home.query("SELECT city, count(*) AS n FROM same GROUP BY city", save="cities")

    def refused(*_):
        raise QuestionError("a function that it calls is no longer there")

    monkeypatch.setattr(saved_again, "_rerun", refused)
    told = told_of(planned(flow, 1), "cities.cities")
    assert (told["way"], told["delete"], told["reason"]) == ("deleted", 1, saved_again.NOT_AGAIN)
    told = told_of(planned(flow, 2), "cities.cities")
    assert (told["way"], told["delete"]) == ("deleted", 1) and "reason" not in told


@pytest.mark.parametrize("rewrite", [False, True])
def test_the_verdict_says_whether_the_sources_were_rewritten(spark, tmp_path, monkeypatch, rewrite):
    def kept(*_):
        raise AssertionError("an old value must not stay in an erasure or rectification")

    monkeypatch.setattr("lineage_service.refresh.run_refresh.keep_unchanged", kept)
    flow = Flow(tmp_path, PER_CITY, "  per_city:").run()
    flow.home.audit.plan_erasure(who(1), rewrite_sources=rewrite, out=flow.plan)
    certificate = flow.home.audit.apply(flow.plan, out=flow.certificate)
    verdict = flow.home.audit.verify(flow.certificate, values=[name(1)])
    assert verdict.holds and verdict.to_json()["holds"]
    left = "the source files were not rewritten and may still hold the person's rows"
    (line,) = [line for line in format_verdict(verdict).splitlines() if line.startswith("verdict: ")]
    (done,) = [line for line in certificate_lines(certificate) if line.startswith("erasure done: ")]
    if rewrite:
        assert line == "verdict: holds" and verdict.reservations == [] and left not in done
    else:
        assert line == f"verdict: holds in the home, the catalog and the published copies; but {left}"
        assert verdict.to_json()["reservations"] == [left] and done.endswith(f"; but {left}")
    if not rewrite:  # a correction leaves the old values there
        flow.home.audit.plan_rectification(who(4), {"name": "Wanda"}, out=flow.plan)
        flow.home.audit.apply(flow.plan, out=flow.certificate)
        verdict = flow.home.audit.verify(flow.certificate, values=[name(4)])
        assert verdict.line.endswith("the source files were not corrected and may still hold the old values")


def test_the_verdict_says_what_is_retained(spark, tmp_path):
    hold = ", legal_hold: {ground: tax law}"
    flow = Flow(tmp_path, PER_CITY, "  per_city:", orders=hold).run()
    flow.home.audit.plan_erasure(who(3), rewrite_sources=True, out=flow.plan)
    flow.home.audit.apply(flow.plan, out=flow.certificate)
    verdict = flow.home.audit.verify(flow.certificate, values=[name(3)])
    assert verdict.line.endswith("3 rows are retained under a legal hold"), verdict.line
    assert Verdict(found=["x"], reservations=["y"]).line == "does not hold"
    assert Verdict(incomplete=["x"], reservations=["y"]).line == "incomplete"
