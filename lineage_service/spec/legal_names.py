"""Names of workflows, sources and steps made from other names: of files, tables, models."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from lineage_service.spec.fields import NAME_PATTERN
from lineage_service.spec.name_checks import RESERVED


def legal_name(text: str, otherwise: str) -> str:
    """The text as a name, [a-z][a-z0-9_]*; `otherwise` where nothing of it is left."""
    if re.fullmatch(NAME_PATTERN, text) and text not in RESERVED:
        return text
    plain = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    if not name:
        return otherwise
    if not name[0].isalpha() or name in RESERVED:
        return f"{otherwise}_{name}"
    return name


def unused_name(name: str, used: Container[str]) -> str:
    """The name, with a number behind it where it is used."""
    number, found = 1, name
    while found in used:
        number += 1
        found = f"{name}_{number}"
    return found
