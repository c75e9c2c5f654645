"""Markers of texts in which values of erased persons were replaced.

If the value was compared with a personal column for equality, the text keeps its meaning, because no row has the
replacement. The marker of any other text states that its meaning is lost.
"""

from __future__ import annotations

import json

# What values begin with that stand for others; YEARS: the century of dates.
SAFE, UNSAFE, NUMBER, YEARS = "erased-", "erasedx-", "-88", "88"


def is_computable(content: str) -> bool:
    """Whether the workflow or saved query of a run, as JSON, still has its meaning."""
    if UNSAFE not in content:
        return True
    body = json.loads(content)
    return not any(UNSAFE in json.dumps(body.get(key)) for key in ("steps", "query", "outputs"))
