"""The rows that a question starts from, selected by row ids, keys or a predicate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation, localcontext
from operator import index
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import DatasetRecord

from lineage_service.arguments import is_column_value
from lineage_service.equivalence.intervals import duckdb_interval, has_intervals, interval_example, stored_interval
from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.guarded_session import Session
from lineage_service.query.masks import NONE, Masked, refuse_masked
from lineage_service.query.predicate_gate import checked_predicate
from lineage_service.query.query_engine import QueryEngine
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID, VersionScan

if TYPE_CHECKING:
    import pyarrow as pa

MOST_KEY = 100_000  # characters of a key value
HELD = 10_000  # datasets of up to this many rows are held in memory after the first scan


@dataclass(frozen=True)
class Selection:
    """The rows that a question starts from. Rids, keys and the predicate are combined with AND; `all` excludes the
    others.

    `reveal`: keys and predicate may read masked columns.
    """

    rid: tuple[int, ...] | None = None
    key: tuple[tuple[str, str], ...] = ()
    where: str | None = None
    all: bool = False
    reveal: bool = False

    @classmethod
    def of(
        cls,
        rid: int | Iterable[int] | None,
        key: Mapping[str, object] | Iterable[tuple[str, object]] | None,
        where: str | None,
        all: bool,
        reveal: bool = False,
    ) -> Selection:
        rids = None if rid is None else tuple(dict.fromkeys(_whole_numbers(rid)))
        pairs = tuple(key.items() if isinstance(key, Mapping) else key or ())
        for name, value in pairs:
            if value is None:
                raise QuestionError(f"a key is a value, and '{name}' is None", hint=f"where='{name} IS NULL'")
            if not is_column_value(value):
                raise QuestionError(
                    f"a key is one value, such as a text, a number or a date; that of '{name}' is none",
                    hint=f"several values: where=\"{name} IN ('one', 'other')\"",
                )
        chosen = cls(rids, tuple((name, str(value)) for name, value in pairs), where, all, reveal)
        if all and (chosen.rid is not None or chosen.key or where is not None):
            raise QuestionError("`all` stands alone: leave out rid, key and where")
        return chosen

    @property
    def is_specified(self) -> bool:
        return self.all or self.rid is not None or bool(self.key) or self.where is not None

    @property
    def reads_rows(self) -> bool:
        return bool(self.key) or self.where is not None


def _whole_numbers(rid: Any) -> Iterator[int]:
    """Row ids as Python integers. Accepts integers of NumPy and Arrow."""
    for each in (rid,) if hasattr(rid, "__index__") and not hasattr(rid, "__iter__") else rid:
        plain = each.as_py() if hasattr(each, "as_py") else each
        try:
            number = index(plain)
        except TypeError:
            raise QuestionError("a row id is a whole number", hint="`_rid` of `rows` is one") from None
        if isinstance(plain, bool) or not -(2**63) <= number < 2**63:
            raise QuestionError("a row id is a whole number of 64 bits", hint="`_rid` of `rows` is one")
        yield number


def rids_where(
    engine: QueryEngine,
    session: Session,
    dataset: DatasetRecord,
    scan: VersionScan,
    selection: Selection,
    masked: Masked = NONE,
) -> pa.Array:
    """The sorted rids of the rows that match the keys, the predicate and the rids. Scans the dataset only if necessary.

    Raises QuestionError if they read a column in `masked`.
    """
    names = [each.name for each in scan.version.columns]
    conditions, parameters = [], []
    types = engine.types(scan.select()) if selection.key else {}
    for name, value in selection.key:
        known = next((each for each in names if each.lower() == name.lower()), None)
        if known is None:
            raise QuestionError(
                f"unknown column '{name}'; columns of '{dataset.full_name}': {join_names(names)}",
                hint=did_you_mean(name, names),
            )
        refuse_masked([known], masked, dataset.full_name, "a key would disclose its values")
        if len(value) > MOST_KEY:
            raise QuestionError(f"the value given for column '{known}' is too long ({len(value)} characters)")
        kind = next(each.type for each in scan.version.columns if each.name == known)
        if has_intervals(kind):
            conditions.append(_equals_interval(known, value, kind))
            continue
        conditions.append(_equals(engine, known, value, types[known]))
        parameters.append(value)
    if selection.where is not None:
        conditions.append(checked_predicate(selection.where, [*names, RID], masked=masked))
    if selection.rid is not None:
        conditions.append(f"{RID} IN ({', '.join(map(str, selection.rid))})")
    where = " AND ".join(conditions)
    rows = scan.nan_safe(scan.select(), intervals=True)
    few = scan.version.rows <= HELD
    if selection.where is None:  # only bound values, no user-written expression
        with engine.within_time_limit():
            source = engine.held_table(rows) if few else f"({rows})"
            return engine.id_array(f"SELECT {RID} FROM {source} rows_asked WHERE {where} ORDER BY 1", parameters)
    session.allow(scan.read)
    if few:
        return session.few_ids(f"SELECT {RID} FROM {session.held_table(rows)} rows_asked WHERE {where}", parameters)
    return session.id_array(f"SELECT {RID} FROM ({rows}) rows_asked WHERE {where} ORDER BY 1", parameters)


def _equals(engine: QueryEngine, name: str, value: str, kind: str) -> str:
    """A predicate that a column equals this value exactly. A cast alone would round the value."""
    whole = kind in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
    checks = [f"TRY_CAST(? AS {kind}) IS NOT NULL"]
    if whole or kind == "DATE":
        wider = "DECIMAL(38, 10)" if whole else "TIMESTAMP"
        checks.append(f"TRY_CAST(? AS {wider}) IS NOT DISTINCT FROM TRY_CAST(? AS {kind})::{wider}")
    holds = f"SELECT {' AND '.join(checks)}"
    if not engine.scalar(holds, [value] * holds.count("?")):
        raise QuestionError(f"the value given for column '{name}' is no {kind}")
    equal = f"{column(name)} = CAST(? AS {kind})"
    return equal if _fits(value, kind) else f"({equal} AND false)"


def _equals_interval(name: str, value: str, kind: str) -> str:
    """A predicate that an interval equals one that is written as `rows` shows it."""
    stored = stored_interval(value, kind)
    if stored is None:
        raise QuestionError(
            f"the value given for column '{name}' is no {kind}",
            hint=f"write it as `rows` shows it, such as {interval_example(kind)}",
        )
    return f"{column(name)} = {duckdb_interval(f'CAST({stored} AS BIGINT)', kind)}"


def _fits(value: str, kind: str) -> bool:
    """Whether a number fits the scale of a decimal type. If not, no row can equal it."""
    if not kind.startswith("DECIMAL"):
        return True
    scale = int(kind.removesuffix(")").partition(",")[2] or 0)
    try:
        with localcontext(prec=400):
            return Decimal(value.strip()).scaleb(scale) % 1 == 0
    except InvalidOperation:
        return True
