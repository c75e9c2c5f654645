"""Stores the new values of a rectification in the home until the plan is applied. They must not be in the plan, which
leaves the home.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from lineage_service.errors import LineageError, StoreError
from lineage_service.store.layout import HomeLayout, translate_disk_errors
from lineage_service.store.notes import note_body, note_text

PLANS, VALUES = "plans", "values.json"


def save_correction_values(home: HomeLayout, plan_id: str, values: Mapping[str, str | None]) -> None:
    folder = _folder(home, plan_id)
    with translate_disk_errors(home.path):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(mode=0o700)
        handle = os.open(folder / VALUES, os.O_CREAT | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(note_text(dict(values)))


def load_correction_values(home: HomeLayout, plan_id: str) -> dict[str, str | None]:
    """The values of a plan; empty if it was applied already, which is reported later."""
    try:
        found: dict[str, str | None] = note_body((_folder(home, plan_id) / VALUES).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        place = f"{PLANS}/{plan_id}/{VALUES}"
        raise LineageError(f"the values of the plan, '{place}', are damaged", hint="make the plan again") from None
    return found


def remove_correction_values(home: HomeLayout, plan_id: str | None = None) -> None:
    """Removes the values of a plan, or of all plans. An erasure removes all, because it cannot know whose values they
    are. A pending plan about the same runs has to be made again anyway.
    """
    folder = home.path / PLANS if plan_id is None else _folder(home, plan_id)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StoreError(f"values of a plan could not be removed: '{folder}': {reason}") from error


def _folder(home: HomeLayout, plan_id: str) -> Path:
    return home.path / PLANS / plan_id
