"""What workflow files say of the processing of personal data, and which columns of a dataset hold any."""

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
    """The `privacy` of a workflow as JSON, each key there: what is not said is None, or an empty list."""
    said = content.get("privacy") or {}
    return {key: said.get(key) if key not in LISTS else list(said.get(key) or ()) for key in KEYS}


def content_of(ask: Questions, run_id: str) -> dict[str, Any]:
    """The workflow as JSON, as a run read it."""
    found: dict[str, Any] = json.loads(ask.reader.content(run_id) or "{}")
    return found


def held_since(run: RunRecord) -> datetime:
    """When a run's data was first committed."""
    return datetime.fromisoformat(run.held_since or run.committed_at)


def kept_until(run: RunRecord, privacy: Mapping[str, Any]) -> str | None:
    """The last day of a run's data; None where its workflow names no term."""
    end = end_of_term(held_since(run), privacy.get("retention_days"))
    return None if end is None else end.date().isoformat()


def end_of_term(since: datetime, days: int | None) -> datetime | None:
    """The moment so many days later; None for no term, and for one that ends after all calendars."""
    try:
        return None if days is None else since + timedelta(days=int(days))
    except OverflowError:
        return None


def personal_columns(ask: Questions, dataset: DatasetRecord) -> set[str]:
    """Columns with personal data, in lower case: declared, carried there, or identifying a person."""
    subject = json.loads(dataset.declared).get("subject") or {}
    return {*ask.masks.of(dataset), *(name.lower() for name in subject.values())}


def missing_keys(privacy: Mapping[str, Any], needed: Iterable[str]) -> list[str]:
    """Of these keys, those that the workflow file says nothing of."""
    return [key for key in needed if privacy.get(key) in (None, [], "")]
