"""`gc`: removes files that no committed run needs and, with `retention`, runs past their retention."""

from __future__ import annotations

from typing import Any

from lineage_service.audit.erasure.run_retention import remove_expired_runs
from lineage_service.query.open_home import OpenHome


def remove_garbage(home: OpenHome, *, dry_run: bool, retention: bool, actor: str | None) -> dict[str, Any]:
    """Publishes copies that killed runs left pending, removes expired runs with `retention`, then removes unneeded
    files.
    """
    problems = home.finish_publications(by_name=True) if not dry_run and home.has_runs() else ()
    expired = None
    if retention:
        expired = home.in_one_snapshot(lambda: remove_expired_runs(home, dry_run=dry_run, actor=actor))
    swept: dict[str, Any] = home.sweep(dry_run=dry_run)
    if problems:
        swept["unpublished"] = [str(each) for each in problems]
    if expired is None:
        return swept
    gone = {"expired": [run.id for run in expired.runs], "cut": list(expired.cut), "published": list(expired.published),
         "files": expired.files, "notes": list(expired.notes)}  # fmt: skip
    return {**swept, "bytes": swept["bytes"] + expired.bytes, **gone}
