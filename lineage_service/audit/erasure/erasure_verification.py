"""Verifies an erasure: scans everything for the person's values again, and searches for their rows by lineage."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_service.audit.erasure.identifying_values import columns_of_others, is_searchable
from lineage_service.audit.erasure.remaining_rows import remaining_rows
from lineage_service.audit.erasure.residue_scan import ResidueScan, SearchedValues
from lineage_service.audit.home_integrity import ChecksumComparison
from lineage_service.audit.log.log_transactions import LogEntry, write_entry
from lineage_service.audit.log.sealed_documents import read_document, reservations
from lineage_service.audit.person_search import required_key
from lineage_service.errors import LineageError, QuestionError, join_names
from lineage_service.progress import Stages, Tell
from lineage_service.query.open_home import OpenHome
from lineage_service.store.file_integrity import lost_files
from lineage_service.store.home_key import HomeKey
from lineage_service.store.layout import translate_disk_errors
from lineage_service.store.pending_publications import published_targets
from lineage_service.store.published_folder import copies_beside, read_mark

CANARY = "a canary that must be found 7b1f"


# Values that were not searched for: the key of their count in a certificate, and what is said of one and of several.
_UNSEARCHED_VALUES = (
    (
        "too_short_to_search",
        "value that is too short to search for: short texts occur by chance",
        "values that are too short to search for: short texts occur by chance",
    ),
    (
        "of_other_types",
        "value that is neither a text nor a number nor a date and was not searched for",
        "values that are neither texts nor numbers nor dates and were not searched for",
    ),
    (
        "shared_with_others",
        "value that is shared with other people and was not searched for",
        "values that are shared with other people and were not searched for",
    ),
    (
        "retained",
        "value that also occurs in retained rows and was not searched for",
        "values that also occur in retained rows and were not searched for",
    ),
)


@dataclass
class Verdict:
    """The result of a verification.

    covered, not_covered: what was and was not searched, as text, stated first
    found, incomplete: what was found, or could not be searched
    reservations: what was left on purpose, stated with the verdict
    """

    covered: list[str] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)
    reservations: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.found and not self.incomplete

    @property
    def line(self) -> str:
        """The verdict in one line, including what it does not cover."""
        if not self.holds:
            return "does not hold" if self.found else "incomplete"
        where = "holds in the home, the catalog and the published copies"
        return f"{where}; but {'; '.join(self.reservations)}" if self.reservations else "holds"

    def to_json(self) -> dict[str, Any]:
        return {
            "covered": self.covered,
            "not_covered": self.not_covered,
            "found": self.found,
            "incomplete": self.incomplete,
            "reservations": self.reservations,
            "holds": self.holds,
        }


def verify_certificate(home: OpenHome, path: Path, given: Iterable[str] | None, tell: Tell) -> Verdict:
    """Scans the home, the catalog and published copies for the given values and for the hashes in the certificate."""
    searched = list(given or ())
    if not all(isinstance(each, str) for each in searched):
        raise QuestionError("the values to search for are texts", hint="for example values=['Ada', '1815-12-10']")
    key = required_key(home.questions)
    certificate = read_document(path, key, "certificate")
    if "certificate_of" not in certificate:
        raise LineageError(f"'{path}' is not a certificate", hint="audit apply writes one, with --out")
    stages = Stages(tell)
    summary = certificate["values"]
    values = SearchedValues(
        frozenset(filter(None, searched)),
        frozenset(summary["keyed_hashes"]),
        frozenset(summary["keyed_hashes_of_numbers"]),
        frozenset(summary["columns_of_numbers"]),
        key,
    )
    verdict = Verdict(not_covered=list(certificate["not_covered"]), reservations=reservations(certificate))
    with stages.stage("testing the scan with a known value"):
        if not _finds_canary(home, key):
            verdict.incomplete.append(
                "the scan did not find a known value that was placed as a test: its result cannot be trusted"
            )
    with stages.stage("scanning files"):
        others = columns_of_others(home.questions, values.columns) if values.columns else {}
        scan = ResidueScan(values, _files_with(home, others))
        _scan_files(home, scan)
    with stages.stage("scanning the catalog"):
        scan.catalog(home.reader.engine)
    with stages.stage("comparing files with their checksums"):
        verdict.incomplete += _damaged_files(home)
    with stages.stage("searching for rows of the person"):
        _look_for_lost_files(home, verdict)
        _look_for_rows(home, key, certificate, verdict)
    verdict.found += scan.found
    verdict.incomplete += [f"could not be read: {each}" for each in scan.unreadable]
    _add_coverage(certificate, values, scan, verdict, home)
    if others:
        places = [f"{column} of '{'.'.join(place)}'" for place, columns in others.items() for column in sorted(columns)]
        verdict.not_covered.append(
            f"numbers and dates in columns that are not about persons: {join_names(sorted(places), 5)}"
        )
    result = "holds" if verdict.holds else "does not hold" if verdict.found else "incomplete"
    write_entry(
        home,
        LogEntry(
            "verify",
            certificate["request"],
            certificate["subjects"],
            counts={"files": scan.files, "found": len(verdict.found), "incomplete": len(verdict.incomplete)},
            result=result,
            details={"plan": certificate["plan_id"]},
        ),
    )
    return verdict


def _damaged_files(home: OpenHome) -> list[str]:
    """Files that have changed since they were written. Their original content is unknown."""
    comparing = ChecksumComparison(home.layout, home.reader, deep=True)
    faults = (fault for run in home.reader.runs() for fault in comparing.faults(run.id))
    return [*home.reader.broken_scopes(), *dict.fromkeys(faults)]


def _scan_files(home: OpenHome, scan: ResidueScan) -> None:
    folder = home.layout.path
    database = home.reader.engine.url.database if home.reader.engine.dialect.name == "sqlite" else None
    # The catalog is scanned separately.
    own = list(Path(database).parent.glob(Path(database).name + "*")) if database else []
    scan.folder(folder, lambda path: str(path.relative_to(folder)), own)
    for target in published_targets(home.reader):
        for copy in (target, *copies_beside(target)):
            if copy.exists():
                scan.folder(copy, str)


def _files_with(home: OpenHome, others: Mapping[tuple[str, str], set[str]]) -> dict[Path, set[str]]:
    """By file, in the home and in published copies: the columns that each dataset in it has among these."""
    found: dict[Path, set[str]] = {}
    for run in home.reader.runs() if others else ():
        for dataset in home.reader.datasets(run.id):
            for path in home.questions.scan(dataset).paths:
                columns = others.get((run.workflow, dataset.name), set())
                found[Path(path)] = found.get(Path(path), columns) & columns
    for target in published_targets(home.reader) if others else ():
        for copy in (target, *copies_beside(target)):
            if (mark := read_mark(copy)) is not None and mark.workflow is not None and mark.output is not None:
                columns = others.get((mark.workflow, mark.output), set())
                found |= {copy / file: columns for file in mark.files or ()}
    return found


def _look_for_lost_files(home: OpenHome, verdict: Verdict) -> None:
    """Reports missing files. They cannot be searched, and rows cannot be followed through them."""
    lost = [f"'{each.path}' of run '{run.id}'" for run, each in lost_files(home.reader, home.layout)]
    if lost:
        verdict.incomplete.append(f"files that runs need are missing: {join_names(lost, 5)}")


def _look_for_rows(home: OpenHome, key: HomeKey, certificate: Mapping[str, Any], verdict: Verdict) -> None:
    """Searches by lineage: if no source has rows of the person, nothing derives from them."""
    if certificate["certificate_of"] != "erasure":
        return
    rows = remaining_rows(home, key, certificate)
    for each in rows.found:
        verdict.found.append(
            f"{len(each.rids):,} rows of '{each.dataset.full_name}@{each.dataset.run_id}' belong to the person"
        )
    for unsearched in rows.unsearched:
        verdict.incomplete.append(f"'{unsearched.dataset.full_name}@{unsearched.dataset.run_id}': {unsearched.reason}")


def _add_coverage(
    certificate: Mapping[str, Any], values: SearchedValues, scan: ResidueScan, verdict: Verdict, home: OpenHome
) -> None:
    summary = certificate["values"]
    whole = len(values.hashes) + len(values.numbers)
    given = sum(is_searchable(each) for each in values.given)
    verdict.covered += [
        f"{scan.files:,} files of the home and of published copies, {scan.parquet:,} of them Parquet: "
        f"{scan.decoded.columns:,} columns, {scan.decoded.dictionaries:,} dictionary pages and "
        f"{scan.decoded.statistics:,} statistics decoded",
        f"{scan.rows_of_catalog:,} rows of the catalog"
        + (f", and {scan.pages:,} pages of its file, including free ones" if scan.pages else ""),
        f"searched for {whole:,} values by keyed hash (complete values only) and for {given:,} given again (also "
        "inside other values)"
        + (f"; numbers and dates only in columns named {', '.join(sorted(values.columns))}" if values.columns else ""),
        "rows of the person in every held run, by the index of persons",
    ]
    if home.reader.engine.dialect.name != "sqlite":
        verdict.not_covered.append("pages of the database server: only its rows can be read")
    verdict.not_covered += [
        f"{summary[count]} {one if summary[count] == 1 else several}"
        for count, one, several in _UNSEARCHED_VALUES
        if summary[count]
    ]
    if not whole and not given and not certificate["retained"]:
        verdict.incomplete.append("no value to search for: give the person's values again on standard input")


def _finds_canary(home: OpenHome, key: HomeKey) -> bool:
    """Whether the scan finds a value that is known to be there, in a compressed file, as a text and as a number, by
    value and by hash.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with translate_disk_errors(home.layout.path):
        home.layout.spill.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.layout.spill) as folder:
            path = Path(folder) / "canary.parquet"
            texts = [f"filler {number}" for number in range(500)] + [CANARY]
            pq.write_table(pa.table({"text": texts, "number": [*range(500), 4711_0815]}), path, compression="zstd")
            for values in (
                SearchedValues(frozenset([CANARY])),
                SearchedValues(frozenset(["47110815"]), columns=frozenset(["number"])),
                SearchedValues(hashes=frozenset([key.value(CANARY)]), key=key),
                SearchedValues(numbers=frozenset([key.value("47110815")]), columns=frozenset(["number"]), key=key),
            ):
                scan = ResidueScan(values)
                scan.file(path, "canary")
                if not scan.found:
                    return False
    return True


def format_verdict(verdict: Verdict) -> str:
    """The verdict as text, with its coverage first."""
    lines = ["covered:", *(f"  {each}" for each in verdict.covered)]
    lines += ["not covered:", *(f"  {each}" for each in verdict.not_covered)]
    if verdict.found:
        lines += ["found:", *(f"  {each}" for each in verdict.found[:50])]
        lines += [f"  and {len(verdict.found) - 50} more"] if len(verdict.found) > 50 else []
    if verdict.incomplete:
        lines += ["incomplete:", f"  {join_names(verdict.incomplete, 20)}"]
    lines.append(f"verdict: {verdict.line}")
    return "\n".join(lines)
