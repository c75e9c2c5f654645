"""Small data for the programs, with nulls, duplicates and gaps."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CITIES = ["Köln", "Bonn", None, "Trier"]


def write_data(folder: Path) -> None:
    events = [
        {"event_id": n, "user_id": n % 4, "ts": 1_000 * ((n * 7) % 23), "kind": ["view", "buy"][n % 2]}
        for n in range(40)
    ]
    _parquet(folder / "events", events, 3)
    customers = [{"customer_id": n, "city": CITIES[n % 4]} for n in range(8)]
    _parquet(folder / "customers.parquet", customers)
    orders = [
        {
            "order_id": n,
            "customer_id": (n * 3) % 9,
            "status": ["open", "paid", "lost"][n % 3],
            "amount": float(n * 5 % 17),
        }
        for n in range(30)
    ]
    _parquet(folder / "orders", orders, 2)
    items = [{"order_id": n * 2 % 34, "quantity": n % 5, "price": n * 1.5} for n in range(50)]
    _json(folder / "items.json", items)
    (folder / "updates.csv").write_text("customer_id,city\n1,Bonn\n2,Mainz\n3,Speyer\n99,Worms\n", encoding="utf-8")
    (folder / "typed.csv").write_text(
        "customer_id,city,note\n1, köln ,N/A\n1, köln ,N/A\n,bonn,x\n2,,-\n3,Trier,good\n3,Trier,good\n",
        encoding="utf-8",
    )
    _json(
        folder / "nested.json",
        [
            {"id": 1, "customer": {"name": "Ada"}, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]},
            {"id": 2, "customer": {"name": "Bob"}, "lines": []},
            {"id": 3, "customer": None, "lines": [{"sku": "a", "n": 5}]},
        ],
    )
    for year, columns in ((2023, ["id", "v"]), (2024, ["id", "v", "w"]), (2025, ["id", "w"])):
        _parquet(folder / f"year_{year}.parquet", [dict.fromkeys(columns, year + n) for n in range(3)])


def _parquet(path: Path, rows: list[dict], parts: int | None = None) -> None:
    if parts is None:
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    path.mkdir()
    for part in range(parts):
        pq.write_table(pa.Table.from_pylist(rows[part::parts]), path / f"part-{part}.parquet")


def _json(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
