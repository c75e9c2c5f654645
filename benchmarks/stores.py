"""Stores that are called once per pair, inside Spark's Python workers: memory, and LMDB on disk.

Workers import this module, so it needs nothing of ours. A worker keeps its memory between tasks; the token of a run
tells whose pairs they are.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

PER_TRANSACTION = 100_000
MOST_BYTES = 1 << 36  # address space that LMDB reserves; the file grows as needed

_memory: dict[int, dict[Any, array[int]]] = {}  # by source and key
_token = ""


class Memory:
    """One growing array of rids per key and source, as the paper's Phys-Mem has."""

    def __init__(self, token: str, sources: int) -> None:
        global _token  # noqa: PLW0603 (a worker's memory is what is measured)
        if _token != token:
            _memory.clear()
            _memory.update((source, {}) for source in range(sources))
            _token = token

    def put(self, source: int, key: Any, rid: int) -> None:
        keys = _memory[source]
        rids = keys.get(key)
        if rids is None:
            rids = keys[key] = array("q")
        rids.append(rid)

    def close(self) -> None:
        """What is in memory stays there."""


class Disk:
    """An LMDB environment per task, for one writer at a time is all it has: a B-tree per source, duplicates sorted."""

    def __init__(self, folder: str, sources: int) -> None:
        import lmdb

        path = Path(folder) / f"{os.getpid()}-{len(os.listdir(folder))}"  # noqa: PTH208 (a count is all that is wanted)
        path.mkdir()
        self._pack = struct.Struct(">q").pack
        self._environment = lmdb.open(str(path), map_size=MOST_BYTES, max_dbs=sources)
        self._tables = [
            self._environment.open_db(str(number).encode(), dupsort=True, dupfixed=True) for number in range(sources)
        ]
        self._transaction = self._environment.begin(write=True)
        self._left = PER_TRANSACTION

    def put(self, source: int, key: Any, rid: int) -> None:
        pack = self._pack
        name = pack(key) if isinstance(key, int) else repr(key).encode()
        self._transaction.put(name, pack(rid), db=self._tables[source])
        self._left -= 1
        if not self._left:
            self._transaction.commit()
            self._transaction, self._left = self._environment.begin(write=True), PER_TRANSACTION

    def close(self) -> None:
        self._transaction.commit()
        self._environment.close()


def putting(
    open_store: Callable[[], Memory | Disk], keys: int
) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """A function for `arrow_udf`: of each row the first `keys` columns are the output's key, the others rids.

    Always true, so that a filter by it keeps the rows. The rows come in batches, and the store is closed when all
    have come: the best that Spark offers to code that is called per pair.
    """

    def put_all(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        store = open_store()
        put = store.put
        for columns in batches:
            values = [column.to_pylist() for column in columns]
            names = values[0] if keys == 1 else list(zip(*values[:keys], strict=True))
            for source, rids in enumerate(values[keys:]):
                for name, rid in zip(names, rids, strict=True):
                    put(source, name, rid)
            yield pa.repeat(pa.scalar(True), len(columns[0]))
        store.close()

    # Spark reads these; as text they could not be found in a worker.
    put_all.__annotations__ = {"batches": Iterator[tuple[pa.Array, ...]], "return": Iterator[pa.Array]}
    return put_all


def forgetting(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """A function for `arrow_udf`: empties the memory of the worker it runs in."""
    for keys in _memory.values():
        keys.clear()
    yield from batches


forgetting.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
