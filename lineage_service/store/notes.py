"""Small JSON files with a digest of their own, so that damage is detected when they are read.

Files of committed runs have checksums in the catalog. These notes are written before a commit, or belong to no run.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any


def note_text(body: Any) -> str:
    """The text of a note with its digest."""
    return json.dumps({"body": body, "digest": _digest(body)})


def note_body(text: str) -> Any:
    """The content of a note. Raises ValueError if it has changed since it was written. Notes of earlier versions have
    no digest.
    """
    found = json.loads(text)
    if not isinstance(found, dict) or found.keys().isdisjoint({"body", "digest"}):
        return found
    if found.keys() != {"body", "digest"} or found["digest"] != _digest(found["body"]):
        raise ValueError("the note's digest is that of another text")
    return found["body"]


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
