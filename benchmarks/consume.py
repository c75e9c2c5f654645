"""Q1a, nothing prepared: each bar of TPC-H Q1 by month and year, beside fetch, scan and a covering index."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bars_of_q1 import BY_MONTH, ROWS, asked, bars_of, build, interleaved, plain
from benchmarks.declared import OUTPUT
from benchmarks.results import Result
from benchmarks.rounds import Options, tell
from lineage_service import Home

COVERING = f"{{name: q1a, backward: {OUTPUT}, to: lineitem, columns: [l_shipdate, l_quantity]}}"
REPEATS = 9


def measure(folder: Path, options: Options) -> list[Result]:
    bare, source = build(folder, options, "rows", [ROWS])
    covered, _ = build(folder, options, "covering", [ROWS, COVERING])
    results: list[Result] = []
    with Home.open(bare) as home, Home.open(covered) as prepared, plain() as scan:
        for bar in bars_of(home):
            if not options.wants_case(bar.label):
                continue
            tell(f"consume {bar.label}: asking")
            pairs = next((bare / "runs").glob("*/index/*.backward.parquet"))
            rid = home.rows(OUTPUT, where=bar.start.replace("''", "'")).to_pylist()[0]["_rid"]
            positions = f"SELECT b FROM read_parquet('{pairs}') WHERE a = {rid}"
            fetched = f"(SELECT * FROM read_parquet('{source}') t SEMI JOIN ({positions}) p ON t.file_row_number = p.b)"
            scanned = f"(SELECT * FROM read_parquet('{source}') WHERE {bar.lazy})"
            ours, by_fetch, by_scan = (
                BY_MONTH.format(rows=rows, where="") for rows in (bar.lineage(), fetched, scanned)
            )
            ways = {
                "auto": lambda sql=ours: home.query(sql).arrow(),
                "covering": lambda sql=ours: prepared.query(sql).arrow(),
                "fetch": lambda sql=by_fetch: scan(sql),
                "scan": lambda sql=by_scan: scan(sql),
            }
            took = interleaved({name: way for name, way in ways.items() if options.wants(name)}, REPEATS)
            results += asked("consume", bar.label, took, ("fetch", "scan"), bar.rows, options.scale)
    return results
