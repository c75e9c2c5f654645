"""Columns of sources as far as they are known without Spark: from footers, headers and declared schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lineage_service.errors import SourceError, did_you_mean
from lineage_service.plan.schema import Column, ColumnError, Schema, csv_hint
from lineage_service.spec.models import SourceSpec
from lineage_service.store.declared_schema import parse_declared_schema
from lineage_service.store.formats.format_registry import format_of_source
from lineage_service.store.listing import Listing, is_vast
from lineage_service.store.versions import Version

UNKNOWN = Schema(known=False)


def known_schema(source: SourceSpec, folder: Path, version_of: Callable[[str], Version]) -> Schema:
    """The source's columns under the user's names.

    Raises SourceError if its files are missing or unreadable, NotFound if no run has made it.
    """
    if source.output is not None:
        version = version_of(source.output)
        return apply_renames(
            [Column(each.name, each.type, alike=True, pii=each.pii) for each in version.columns], source.rename
        )
    if is_vast(str(source.path), folder):
        return UNKNOWN  # the run looks through all of it, once
    found = format_of_source(source).list_files(str(source.path), folder)
    columns = _columns(source, found)
    if columns is None:
        return UNKNOWN
    names = {column.name.lower() for column in columns}
    partitions = [Column(name) for name in found.partitions if name.lower() not in names]
    return apply_renames([*columns, *partitions], source.rename)


def _columns(source: SourceSpec, listed_files: Listing) -> list[Column] | None:
    form = format_of_source(source)
    if source.schema_ is None:
        return form.columns(listed_files.files[0], source.reader_options)
    return form.declared_columns(parse_declared_schema(source.schema_), listed_files.files[0])


def apply_renames(columns: Sequence[Column], rename: Mapping[str, str]) -> Schema:
    """The columns under the user's names. Raises SourceError if a column to rename does not exist or two get the same
    name.
    """
    by_old = {old.lower(): new for old, new in rename.items()}
    missing = [old for old in rename if old.lower() not in (column.name.lower() for column in columns)]
    if missing:
        names = [column.name for column in columns]
        hint = csv_hint(missing[0], names) or did_you_mean(missing[0], names)
        raise SourceError(f"rename: no column '{missing[0]}'; columns here: {', '.join(names)}", hint=hint)
    try:
        return Schema(tuple(replace(each, name=by_old.get(each.name.lower(), each.name)) for each in columns))
    except ColumnError as error:
        raise SourceError(error.message, hint=error.hint or "give one of them another name with `rename`") from None
