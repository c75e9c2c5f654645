"""Finds rows of erased persons that are still held. Only rows under a legal hold may be left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lineage_service.audit.person_search import SubjectRows, rows_of_hashes
from lineage_service.query.open_home import OpenHome
from lineage_service.store.home_key import HomeKey


def remaining_rows(home: OpenHome, key: HomeKey, document: Mapping[str, Any]) -> SubjectRows:
    """Rows of the persons of a plan or certificate in every held run, without retained rows and outputs derived from
    those.
    """
    rows = rows_of_hashes(home.questions, key, document["subjects"])
    retained = {each["dataset"] for each in document["retained"]}
    found = [
        each
        for each in rows.found
        if each.dataset.full_name not in retained
        and not (retained and json.loads(each.dataset.declared).get("output") is not None)
    ]
    return replace(rows, found=found)
