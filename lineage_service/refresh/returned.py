"""They come back by a refresh: rows that it brings which are of persons who were erased."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from lineage_service.errors import Problem, RunError
from lineage_service.refresh.changes import Changed
from lineage_service.refresh.refreshed import Refresh
from lineage_service.spec.models import BrokenSource
from lineage_service.store.engine import column
from lineage_service.store.scan import RID
from lineage_service.subjects.hashing import canonical, hashed
from lineage_service.subjects.index import Declared, declared_subjects
from lineage_service.subjects.key import home_key
from lineage_service.subjects.noted import scan_of
from lineage_service.subjects.returned import is_held, refuse_another_key


def returned_rows(refresh: Refresh, changes: Mapping[str, Changed]) -> list[Problem]:
    """Warnings of sources that read such rows all the same. RunError where one says otherwise: a refresh brings what it
    was given, or nothing, so that `drop` is of no help."""
    found = []
    for name, change in changes.items():
        spec = refresh.loaded.spec.sources[name]
        if isinstance(spec, BrokenSource) or is_held(spec) or not len(change.came):
            continue
        rows = sum(_rows(refresh, each, change) for each in declared_subjects(name, spec.subject))
        if not rows:
            continue
        told = (
            f"source '{name}': {rows:,} {'row' if rows == 1 else 'rows'} that came {'is' if rows == 1 else 'are'} of "
        )
        if spec.on_erased == "warn":
            found.append(Problem(f"{told}persons who were erased, and read all the same", None, None, "warning"))
        else:
            hint = "nothing was changed; leave them out, or run the workflow with `on_erased: drop`"
            found.append(Problem(f"{told}persons who were erased", None, hint))
    if any(problem.severity == "error" for problem in found):
        raise RunError(found)
    return found


def _rows(refresh: Refresh, declared: Declared, change: Changed) -> int:
    erased = refresh.ask.reader.erased(declared.kind)
    own = next((each for each in change.after.columns if each.name.lower() == declared.column.lower()), None)
    if not erased or own is None:
        return 0
    key = home_key(refresh.home)
    refuse_another_key(refresh.home, key, erased)
    engine = refresh.ask.engine
    came = engine.keep_ids(pa.array(change.came, pa.int64()))
    text = hashed(declared.kind, canonical(column(own.name), own.type))
    every = scan_of(refresh.folder, change.after).select([own.name])
    rows = f"SELECT t.* FROM ({every}) t SEMI JOIN {came} c ON c.b = t.{RID}"
    wanted = ", ".join(f"unhex('{each}')" for each in sorted(erased))
    pads = [pad for _ in range(text.count("?") // 2) for pad in key.pads]
    try:
        query = f"SELECT count(*) FROM (SELECT {text} AS hash FROM ({rows})) WHERE hash IN ({wanted})"
        return int(engine.connection.execute(query, pads).fetchall()[0][0])
    finally:
        engine.drop(came)
