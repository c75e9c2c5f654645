"""Answers why rows of a dataset are not in an output, within one run or across the runs between the two."""

from __future__ import annotations

from lineage_service.errors import QuestionError
from lineage_service.progress import Stages
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.store.layout import HomeLayout
from lineage_service.why_not.across_runs import is_reached_indirectly, why_not_across_runs
from lineage_service.why_not.question import is_across_runs, resolve_question
from lineage_service.why_not.why_not_result import WhyNot
from lineage_service.why_not.within_run import why_not_within_run


def why_not(
    home: HomeLayout,
    questions: Questions,
    source: str,
    to: str,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None = None,
    rids: bool = False,
) -> WhyNot:
    """Where the selected rows of a dataset are lost on the way to an output."""
    found = _find_losses(home, questions, source, to, selection, stages, limit=limit, rids=rids)
    found.notes += questions.cuts.notes_of_runs([found.run_id])
    return found


def _find_losses(
    home: HomeLayout,
    questions: Questions,
    source: str,
    to: str,
    selection: Selection,
    stages: Stages,
    *,
    limit: int | None,
    rids: bool,
) -> WhyNot:
    if not selection.is_specified:
        raise QuestionError("say which rows to start from: rid, key, where or all")
    if is_across_runs(questions, source, to):
        target = questions.find(to)
        return why_not_across_runs(home, questions, source, target, selection, stages, limit=limit, rids=rids)
    asked = resolve_question(home, questions, source, to)
    if is_reached_indirectly(questions, asked):
        return why_not_across_runs(home, questions, asked.source, asked.to, selection, stages, limit=limit, rids=rids)
    return why_not_within_run(asked, questions, selection, stages, limit=limit, rids=rids)
