"""Builds the subject indexes of the versions that a run reads.

Each version is indexed once, after the outputs are committed; or before, if persons were erased and their return must
be detected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lineage_catalog.records import SubjectRecord

from lineage_service.capture.handles import Space, source_space
from lineage_service.store.duckdb_engine import open_duckdb
from lineage_service.store.home_key import HomeKey, home_key
from lineage_service.store.layout import RunFolder
from lineage_service.store.version_scan import VersionScan
from lineage_service.store.versions import Version
from lineage_service.subjects.subject_index import DeclaredSubject, SubjectIndex

Known = Callable[[str], Sequence[SubjectRecord]]  # returns the index recorded for a version before


def existing_index(declared: DeclaredSubject, version: Version, known: Known, key: HomeKey) -> SubjectRecord | None:
    """The index that a version has already, made with this key."""
    same = (each for each in known(version.id) if (each.kind, each.column) == (declared.kind, declared.column))
    return next((each for each in same if each.key_id == key.id), None)


def index_sources(
    folder: RunFolder, declared: Sequence[DeclaredSubject], versions: Mapping[Space, Version], known: Known
) -> tuple[SubjectRecord, ...]:
    """The subject indexes of the sources' versions (by space), except for those that are `known`."""
    if not declared:
        return ()
    key = home_key(folder.home)
    wanted = [
        each for each in declared if existing_index(each, versions[source_space(each.source)], known, key) is None
    ]
    if not wanted:
        return ()
    made: dict[tuple[str, str, str], SubjectRecord] = {}
    with open_duckdb(folder.temporary / "spill") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        index = SubjectIndex(connection, folder, key)
        for each in wanted:
            version = versions[source_space(each.source)]
            if (version.id, each.kind, each.column) not in made:
                made[version.id, each.kind, each.column] = index.of_version(each, scan_of(folder, version))
    return tuple(made.values())


def scan_of(folder: RunFolder, version: Version) -> VersionScan:
    absolute = folder.home.absolute
    return VersionScan(version, tuple(absolute(file.path) for file in version.files), absolute)
