"""Inspects a column of ids: whether it is a formula of the row number, and whether it is ascending.

Such a column needs no separate index. Every value is checked, because statistics are not sufficient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_service.store.checksums import verify

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class Formula:
    """The id behind row `a` is (a + shift) // div % mod (0: no modulo) for low <= a < high; other rows have none.

    The identity has shift 0 and div 1. An input of a union has a shift. The sides of a cross product have div or mod.
    """

    shift: int
    div: int
    mod: int
    low: int
    high: int

    def to_json(self) -> dict[str, int]:
        return {"shift": self.shift, "div": self.div, "mod": self.mod, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class IdColumnShape:
    """The properties of an id column: the number of non-null ids, a formula if there is one, whether it is ascending,
    the maximum, and its bytes on disk.
    """

    count: int
    formula: Formula | None
    ascending: bool
    largest: int
    bytes: int


def inspect_id_column(files: Sequence[str], column: str, modulo: int) -> IdColumnShape:
    """The properties of a column over files, in row order. `modulo` is the number of rows that the ids refer to."""
    looked = _ColumnInspector(modulo)
    size = 0
    for file in files:
        size += _compressed_bytes(file, column)
        for batch in batches_of(file, column):
            looked.add_batch(batch)
    return IdColumnShape(looked.count, looked.formula(), looked.ascending, looked.last, size)


def _compressed_bytes(file: str, column: str) -> int:
    import pyarrow.parquet as pq

    verify(file)
    metadata = pq.read_metadata(file)
    groups = (metadata.row_group(group) for group in range(metadata.num_row_groups))
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    return sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema == column)


def batches_of(file: str, column: str) -> Iterator[pa.Array]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(BATCH, columns=[column], use_threads=False):
            if batch.num_rows:
                yield batch.column(0)


class _ColumnInspector:
    """Reads a column once and drops the candidates that it contradicts."""

    def __init__(self, modulo: int) -> None:
        self.modulo = modulo
        self.position = 0
        self.count = 0
        self.low: int | None = None
        self.high = 0
        self.last = -1
        self.ascending = True
        self.contiguous = True
        self.candidates: list[tuple[int, int, int]] | None = None  # (shift, div, mod)

    def add_batch(self, ids: pa.Array) -> None:
        import pyarrow.compute as pc

        begin, rows = self.position, len(ids)
        self.position += rows
        if ids.null_count:
            there = pc.is_valid(ids)
            positions = pc.indices_nonzero(there)
            ids = ids.drop_null()
            if not len(ids):
                return
            first, last = begin + positions[0].as_py(), begin + positions[-1].as_py()
        else:
            first, last = begin, begin + rows - 1
        if (self.low is not None and first != self.high) or last - first + 1 != len(ids):
            self.contiguous = False
        self.low = first if self.low is None else self.low
        self.high = last + 1
        self.count += len(ids)
        self._update_ascending(ids)
        if not self.contiguous:
            self.candidates = []
        elif self.candidates != []:
            self._test_candidates(ids, first)

    def _update_ascending(self, ids: pa.Array) -> None:
        import pyarrow.compute as pc

        if self.ascending:
            inside = len(ids) < 2 or pc.all(pc.less_equal(ids.slice(0, len(ids) - 1), ids.slice(1))).as_py()
            self.ascending = bool(inside) and ids[0].as_py() >= self.last
        self.last = max(self.last, pc.max(ids).as_py())

    def _test_candidates(self, ids: pa.Array, first: int) -> None:
        if self.candidates is None:
            self.candidates = self._guesses(ids, first)
        self.candidates = [each for each in self.candidates if _follows(ids, first, each)]

    def _guesses(self, ids: pa.Array, first: int) -> list[tuple[int, int, int]]:
        import pyarrow.compute as pc

        head = ids[0].as_py()
        guesses = [(head - first, 1, 0)]
        if first == 0 and head == 0:
            if self.modulo > 0:
                guesses.append((0, 1, self.modulo))
            more = pc.index(pc.greater(ids, head), True).as_py()
            if more > 1:
                guesses.append((0, more, 0))
        return guesses

    def formula(self) -> Formula | None:
        if not self.candidates or self.low is None or not self.contiguous:
            return None
        shift, div, mod = self.candidates[0]
        return Formula(shift, div, mod, self.low, self.high)


def _follows(ids: pa.Array, first: int, candidate: tuple[int, int, int]) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    shift, div, mod = candidate
    numbers: Any = pc.add(_row_numbers(len(ids)), pa.scalar(first + shift, pa.int64()))
    if div > 1:
        numbers = pc.divide(numbers, pa.scalar(div, pa.int64()))
    if mod:
        whole = pa.scalar(mod, pa.int64())
        numbers = pc.subtract(numbers, pc.multiply(pc.divide(numbers, whole), whole))
    return bool(pc.all(pc.equal(ids, numbers)).as_py())


def _row_numbers(length: int) -> pa.Array:
    """0, 1, 2, … as an array, without Python integers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pc.indices_nonzero(pa.repeat(True, length)), pa.int64())
