"""The bars of the project, and whether results hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks.results import Result, by_case, named
from benchmarks.techniques import SINGLE

JUDGED = ("auto", "auto-warm")
NO_BREAKER = "none"
NEAR = 1.15  # `auto` may take so many times what the best single strategy takes
NOISE = 1.05  # it is the dearest only where it takes so many times what the dearest single strategy takes
LOOKUPS = {"auto": (2.5, 6.0), "auto-hot": (1.0, None)}  # rids of one group: milliseconds, p50 and p95
ROWS_OF_A_GROUP = 1.2  # times the better of fetch and scan
SQL_EACH = (("off", "ratio", 1.25), ("auto", "ratio", 2.0))
SQL_MEANS = (("off", "ratio", 1.05), ("auto", "critical_ratio", 1.10), ("auto", "ratio", 1.25))
COMMAND = 0.8  # seconds
COMMANDS = {"--help": 0.5, "validate": 0.5, "rows": COMMAND, "backward --rids": COMMAND}


@dataclass(frozen=True)
class Verdict:
    """One bar on one result. No value, no bar held. An `aim` is told, and nothing fails by it."""

    result: Result
    what: str
    value: float | None
    bar: float
    aim: bool = False

    @property
    def holds(self) -> bool:
        return self.value is not None and self.value <= self.bar

    @property
    def failed(self) -> bool:
        return not self.holds and not self.aim

    def __str__(self) -> str:
        value = "no figure" if self.value is None else f"{self.value:.3g}"
        verdict = "holds" if self.holds else "missed" if self.aim else "FAILS"
        kind = "aim" if self.aim else "bar"
        return f"{self.result.case}, {self.result.technique}: {self.what} {value}, {kind} {self.bar:g}: {verdict}"


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """All bars that these results can be held against, in their order."""
    found: list[Verdict] = []
    for (experiment, label), group in by_case(results).items():
        if experiment in DECLARED:
            found += DECLARED[experiment](label, group)
            continue
        if experiment == "lookup":
            found += (verdict for result in group for verdict in _of_lookup(result))
            continue
        for result in (each for name in JUDGED if (each := named(group, name))):
            found += (
                Verdict(result, what, getattr(result, what), bar) for what, bar in bars(experiment, label).items()
            )
            if experiment == "selection":
                found.append(Verdict(result, "ratio", result.ratio, 1.2, aim=True))
            found += _against_single(result, group)
    return [*found, *_of_all_sql(results)]


def _of_prune(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    """One source, one direction: at most half the bytes of all, and less time to capture and index."""
    everything = named(group, "all")
    for each in group:
        if each.technique in ("all", "Baseline") or everything is None or not everything.bytes:
            continue
        yield Verdict(each, "bytes to those of all", None if each.bytes is None else each.bytes / everything.bytes, 0.5)
        seconds, whole = each.capture_s, everything.capture_s
        yield Verdict(each, "capture to that of all", seconds / whole if seconds is not None and whole else None, 0.9)


def _of_pushdown(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    everything, tenth = named(group, "all"), named(group, "where 10%")
    if everything is not None and tenth is not None and everything.bytes and tenth.bytes:
        yield Verdict(tenth, "bytes to a tenth of all", tenth.bytes / everything.bytes / 0.1, 1.15)


def _of_consume(label: str, group: Sequence[Result]) -> Iterator[Verdict]:
    auto, covering, scan = (named(group, name) for name in ("auto", "covering", "scan"))
    if auto is not None:
        yield Verdict(auto, "p50 to the better of fetch and scan", auto.ratio, 1.2)
    if covering is not None and scan is not None and label == "NF" and covering.p50_ms and scan.p50_ms:
        yield Verdict(covering, "p50 to the scan's", covering.p50_ms / scan.p50_ms, 0.2)


def _of_skipping(label: str, group: Sequence[Result]) -> Iterator[Verdict]:
    if label == "capture":
        prepared = named(group, "with skipping")
        if prepared is not None:
            yield Verdict(prepared, "seconds to those without", prepared.ratio, 2.2)
        return
    auto = named(group, "auto")
    if auto is not None:
        yield Verdict(auto, "p95 in ms", auto.p95_ms, 30.0)
        gain = None if not auto.raw_ratio else 1 / auto.raw_ratio
        yield Verdict(auto, "p50 to the scan's, of the worst combination", gain, 0.2)


def _of_cube(label: str, group: Sequence[Result]) -> Iterator[Verdict]:
    if label == "capture":
        prepared = named(group, "with the cube")
        if prepared is not None:
            yield Verdict(prepared, "seconds to those without", prepared.ratio, 1.15)
        return
    for name in ("workload", "auto"):
        if (each := named(group, name)) is not None:
            yield Verdict(each, "p95 in ms", each.p95_ms, 6.0)


def _of_refresh(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    for name, bar, aim in (("one order", 0.1, 0.05), ("10000 orders", 0.5, None)):
        if (each := named(group, name)) is not None:
            yield Verdict(each, "seconds to those of the full run", each.ratio, bar)
            if aim is not None:
                yield Verdict(each, "seconds to those of the full run", each.ratio, aim, aim=True)


def _of_audit(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    for name in ("access, home just opened", "access, as a command"):
        if (each := named(group, name)) is not None:
            yield Verdict(each, "seconds", each.total_s, 1.0)


def _of_whatif(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    yield from (Verdict(each, "p95 in ms", each.p95_ms, 300.0) for each in group)


def _of_commands(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    judged = (each for each in group if each.technique in COMMANDS)
    yield from (Verdict(each, "seconds", each.total_s, COMMANDS[each.technique]) for each in judged)


def _of_semantics(_: str, __: Sequence[Result]) -> Iterator[Verdict]:
    yield from ()


def _of_window(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    if (auto := named(group, "auto")) is not None:
        yield Verdict(auto, "ratio", auto.ratio, 2.0)
    for name in ("rids, first rows", "count"):
        if (each := named(group, name)) is not None:
            yield Verdict(each, "p50 in ms", each.p50_ms, 50.0)


def _of_sql(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    """An sql step against `spark.sql` of its text: without capture, and with it until all is indexed."""
    for name, what, bar in SQL_EACH:
        if (each := named(group, name)) is not None:
            yield Verdict(each, what, getattr(each, what), bar)


def _of_all_sql(results: Sequence[Result]) -> Iterator[Verdict]:
    """The geometric means over all queries; a query without a figure leaves none."""
    for name, what, bar in SQL_MEANS:
        of_name = [each for each in results if each.experiment == "sql" and each.technique == name]
        if of_name:
            found = [getattr(each, what) for each in of_name]
            value = None if None in found or min(found) <= 0 else geometric_mean(found)
            all_of_them = Result(experiment="sql", case=f"{len(of_name)} queries", technique=name)
            yield Verdict(all_of_them, f"geometric mean of {what}", value, bar)


def _of_compile(_: str, group: Sequence[Result]) -> Iterator[Verdict]:
    yield from (Verdict(each, "seconds beyond start-up", each.capture_s, 0.3) for each in group)


DECLARED: dict[str, Callable[[str, Sequence[Result]], Iterator[Verdict]]] = {
    "prune": _of_prune,
    "pushdown": _of_pushdown,
    "consume": _of_consume,
    "skipping": _of_skipping,
    "cube": _of_cube,
    "refresh": _of_refresh,
    "audit": _of_audit,
    "whatif": _of_whatif,
    "semantics": _of_semantics,
    "commands": _of_commands,
    "window": _of_window,
    "sql": _of_sql,
    "compile": _of_compile,
}


def bars(experiment: str, label: str) -> dict[str, float]:
    """What the figures of `auto` may be at most."""
    match experiment:
        case "tpch":
            return {"critical_ratio": 1.10, "ratio": 1.5 if label == "Q1" else 1.15}
        case "groupby" if label.endswith("clustered"):
            return {"bytes_per_pair_backward": 0.3, "bytes_per_pair_forward": 0.3}
        case "groupby":
            random = {"bytes_per_pair_backward": 2.4, "bytes_per_pair_forward": 2.6}
            return {"critical_ratio": 1.10, "ratio": 2.5, **random}
        case "pkfk":
            return {"ratio": 1.41}
        case "mn":
            return {"ratio": 1.5}
        case "selection":
            return {"ratio": 1.46}
    return {}


def _against_single(auto: Result, group: Sequence[Result]) -> Iterator[Verdict]:
    """Within 15 % of the best strategy that leaves an index, and not dearer than the dearest. By seconds in all.

    Where there is no breaker there is no choice: all strategies are the same program, and differ by chance.
    """
    if auto.strategy == NO_BREAKER:
        return
    took = [each.total_s for name in SINGLE if (each := named(group, name)) and each.total_s is not None]
    for which, compared, bar in (("best", min, NEAR), ("worst", max, NOISE)):
        if len(took) > (which == "worst"):  # of one alone there is no worst
            times = None if auto.total_s is None else auto.total_s / compared(took)
            yield Verdict(auto, f"seconds to those of the {which} strategy", times, bar)


def _of_lookup(result: Result) -> Iterator[Verdict]:
    if result.p50_ms is None:
        yield Verdict(result, "p50 in ms", None, 0.0)
    elif result.technique in LOOKUPS:
        p50, p95 = LOOKUPS[result.technique]
        yield Verdict(result, "p50 in ms", result.p50_ms, p50)
        if p95 is not None:
            yield Verdict(result, "p95 in ms", result.p95_ms, p95)
    if result.technique.startswith("auto rows") and result.ratio is not None:
        yield Verdict(result, "p50 to the better of fetch and scan", result.ratio, ROWS_OF_A_GROUP)
    if result.technique == "command":
        yield Verdict(result, "seconds", result.total_s, COMMAND)
