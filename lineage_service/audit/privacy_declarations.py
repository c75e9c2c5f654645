"""Declarations of workflow files about the processing of personal data, and the columns of a dataset that hold any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from lineage_catalog.records import DatasetRecord, RunRecord

from lineage_service.query.questions import Questions

TEXTS = ("purpose", "legal_basis", "controller", "contact", "authority", "origin")
LISTS = ("categories", "recipients", "transfers", "security")
KEYS = (*TEXTS, *LISTS, "retention_days")


def privacy_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The `privacy` section of a workflow as JSON with all keys. Missing values are None or an empty list."""
    declared = content.get("privacy") or {}
    return {key: declared.get(key) if key not in LISTS else list(declared.get(key) or ()) for key in KEYS}


def content_of(ask: Questions, run_id: str) -> dict[str, Any]:
    """The workflow of a run as JSON."""
    found: dict[str, Any] = json.loads(ask.reader.content(run_id) or "{}")
    return found


def held_since(run: RunRecord) -> datetime:
    """The time when a run's data was first committed."""
    return datetime.fromisoformat(run.held_since or run.committed_at)


def kept_until(run: RunRecord, privacy: Mapping[str, Any]) -> str | None:
    """The last day of a run's data; None if its workflow sets no retention."""
    end = end_of_term(held_since(run), privacy.get("retention_days"))
    return None if end is None else end.date().isoformat()


def end_of_term(since: datetime, days: int | None) -> datetime | None:
    """The moment this many days later; None for no term, and for one beyond the calendar."""
    try:
        return None if days is None else since + timedelta(days=int(days))
    except OverflowError:
        return None


def personal_columns(ask: Questions, dataset: DatasetRecord) -> set[str]:
    """Columns with personal data, in lower case: declared, propagated, or identifying a person."""
    subject = json.loads(dataset.declared).get("subject") or {}
    return {*ask.masks.of(dataset), *(name.lower() for name in subject.values())}


def missing_keys(privacy: Mapping[str, Any], needed: Iterable[str]) -> list[str]:
    """Those of these keys that the workflow file does not set."""
    return [key for key in needed if privacy.get(key) in (None, [], "")]
