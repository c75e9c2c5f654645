"""Values in texts that users wrote: workflow files, variables, saved queries. They are replaced where they stand.

A value is replaced by one that nobody has, so that a comparison for equality goes on to mean what it meant without the
person; a run whose text uses it otherwise is no longer computed anew (`is_computable`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence

from lineage_catalog.erasures import replace_text, texts
from sqlalchemy import Connection

SHORTEST_TEXT, SHORTEST_NUMBER = 4, 4  # shorter values occur by chance
_MARK = "erased-"


def is_telling(value: str) -> bool:
    """Whether a value is long enough that finding it in a text is no chance."""
    return len(value) >= (SHORTEST_NUMBER if value.isdigit() else SHORTEST_TEXT)


def redacted(text: str, values: Iterable[str]) -> str:
    """The text with these values replaced, as they are and as JSON spells them."""
    for value in sorted(set(values), key=len, reverse=True):
        if not is_telling(value):
            continue
        if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
            number = str(int(hashlib.sha256(value.encode()).hexdigest()[:14], 16) % 10**16).zfill(16)
            text = re.sub(rf"(?<![\w.\-]){re.escape(value)}(?![\w.])", f"-88{number}", text)
            continue
        for spelled in _spellings(value):
            text = text.replace(spelled, _MARK + hashlib.sha256(value.encode()).hexdigest()[:16])
    return text


def _spellings(value: str) -> list[str]:
    """A value as it may stand in JSON of SQL: quotes doubled, escaped, non-ASCII letters spelled out."""
    found = []
    for one in (value, value.replace("'", "''")):
        found += [one, json.dumps(one, ensure_ascii=False)[1:-1], json.dumps(one)[1:-1]]
    return list(dict.fromkeys(found))


def redactions(connection: Connection, values: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Texts of the catalog that hold one of the values: table, column, key, and what they become."""
    for table, column, key, text in list(texts(connection)):
        new = redacted(text, values)
        if new != text:
            yield table, column, key, new


def redact(connection: Connection, values: Sequence[str]) -> int:
    """Replaces values in all texts of the catalog; how many texts that were."""
    count = 0
    for table, column, key, new in redactions(connection, values):
        replace_text(connection, table, column, key, new)
        count += 1
    return count
