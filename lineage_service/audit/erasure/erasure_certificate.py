"""The certificate of an erasure or rectification: what was done, to which runs, and what it does not cover."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lineage_catalog.audit import last_entry
from lineage_catalog.erasures import ErasureRecord

from lineage_service.audit.log.log_transactions import log_connection
from lineage_service.errors import join_names
from lineage_service.query.open_home import OpenHome
from lineage_service.store.home_key import HomeKey


def erasure_certificate(
    home: OpenHome,
    plan: Mapping[str, Any],
    key: HomeKey,
    record: ErasureRecord,
    left: Sequence[str],
    written_since: Sequence[str],
) -> dict[str, Any]:
    """The unsealed certificate of an applied plan.

    `record` is what the catalog recorded at the switch. `left` are run folders that could not be removed.
    `written_since` are source files that others wrote before they could be replaced.
    """
    body = json.loads(record.body)
    with log_connection(home) as connection:
        head = last_entry(connection)
    not_covered = [*plan["not_covered"]]
    if left:
        not_covered.append(
            f"folders of runs that were in progress or belong to another catalog: {join_names(list(left))}"
        )
    if written_since:
        shown = join_names([f"'{path}'" for path in written_since])
        not_covered.append(f"source files that were written by others before they could be replaced: {shown}")
    if body["unread"]:
        not_covered.append(
            "values in sources that have changed since: they could not be read and were not searched for"
        )
    return {
        "not_covered": not_covered,
        "certificate_of": plan["kind"],
        "plan_id": plan["plan_id"],
        "home": str(home.layout.path),
        "switched_at": record.at,
        "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request": plan["request"],
        "subjects": plan["subjects"],
        "persons": plan["persons"],
        "totals": plan["totals"],
        "runs": [
            {"superseded": old, "by": new, "workflow": run["workflow"], "datasets": run["datasets"]}
            for (old, new), run in zip(body["switched"], plan["runs"], strict=True)
        ],
        "retained": plan["retained"],
        "published": plan["published"],
        "sources_rewritten": [each for each in plan["sources"] if each["path"] not in written_since],
        "recipients": plan["recipients"],
        "values": {
            "keyed_hashes": body["values"],
            "keyed_hashes_of_numbers": body["numbers"],
            "columns_of_numbers": body["columns"],
            "too_short_to_search": body["short_values"],
            "shared_with_others": body["shared_values"],
            "of_other_types": body["odd_values"],
            "retained": body["retained_values"],
        },
        "log": None if head is None else {"number": head.number, "hash": head.hash},
        "key": key.id,
    }
