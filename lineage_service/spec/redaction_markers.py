"""Texts in which values of erased persons were replaced by ones that nobody has.

Where a personal column was compared with one for equality, the comparison means what it meant. Anywhere else it does
not, and what was put there says so.
"""

from __future__ import annotations

import json

SAFE, UNSAFE, NUMBER = "erased-", "erasedx-", "-88"  # what values begin with that stand for others


def is_computable(content: str) -> bool:
    """Whether a run's workflow, or saved query, as JSON means what it meant."""
    if UNSAFE not in content:
        return True
    body = json.loads(content)
    return not any(UNSAFE in json.dumps(body.get(key)) for key in ("steps", "query", "outputs"))
