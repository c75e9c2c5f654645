"""The models of sources, and the inference of a file's format from its path."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from lineage_service.spec.fields import ClosedModel, Day, Flag, NewColumn, OptionText, Text, Texts, validation_error
from lineage_service.spec.file_formats import FORMAT_BY_SUFFIX, FORMAT_NAMES, FileFormat, format_declaration

FORMATS = ", ".join(FORMAT_NAMES)

_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
_OPTION_NAMES = {"delimiter": "sep", "charset": "encoding"}  # other names that Spark takes
_FILE_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}\Z")


class LegalHold(ClosedModel):
    """Why an erasure must retain the rows of a source, and for how long."""

    ground: Text = Field(description="The legal ground, e.g. tax law")
    until: Day | None = Field(None, description="The last day of the hold; without it, it is open-ended")


class SourceSpec(ClosedModel):
    """A dataset that the workflow reads: files, or another workflow's output."""

    path: Text | None = Field(
        None, description="A file, a folder or a glob, relative to the workflow file; local paths only"
    )
    output: (
        Annotated[
            str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?(@[A-Za-z0-9_-]+)?$")
        ]
        | None
    ) = Field(
        None,
        description="Instead of path: another workflow's output, workflow.name or name; @RUN behind it picks a run",
    )
    format: FileFormat | None = Field(
        None, description="The file format; by default that of the suffix, and Parquet where there is none"
    )
    options: dict[str, OptionText] = Field(
        default_factory=dict, description="Spark's reader options, such as header: true"
    )
    schema_: Text | None = Field(
        None, alias="schema", description="Columns and types as Spark DDL; by default as Spark's reader infers them"
    )
    snapshot: Flag = Field(
        False, description="Keep a copy of a Parquet source in the home; CSV and JSON always have one"
    )
    rename: dict[str, NewColumn] = Field(
        default_factory=dict, description="old name: new name; the workflow sees the new one"
    )
    subject: dict[str, Text] = Field(
        default_factory=dict, description="kind of person: the column that identifies one, as the workflow sees it"
    )
    pii: Texts = Field((), description="Columns that hold personal data; columns computed from them are marked too")
    origin: Text | None = Field(None, description="Where its personal data comes from, if not from the person")
    legal_hold: LegalHold | None = Field(None, description="Why an erasure must retain the rows, and until when")
    on_erased: Literal["fail", "drop", "warn"] = Field(
        "fail", description="What a run does if an erased person is in the data again"
    )

    @field_validator("subject")
    @classmethod
    def _check_subject_kinds(cls, subject: dict[str, str]) -> dict[str, str]:
        for kind in subject:
            # --subject KIND=VALUE splits at the first =
            if "=" in kind or kind != kind.strip() or not kind:
                raise validation_error(f"'{kind}' is not a kind of subject: a kind is a word without '='")
        return subject

    @field_validator("rename")
    @classmethod
    def _check_rename_targets(cls, rename: dict[str, str]) -> dict[str, str]:
        seen: set[str] = set()
        for target in rename.values():
            if target.lower() in seen:
                raise validation_error(f"renames two columns to '{target}'")
            seen.add(target.lower())
        return rename

    @model_validator(mode="after")
    def _check_path_or_output(self) -> Self:
        if (self.path is None) == (self.output is None):
            raise validation_error("needs exactly one of 'path', 'output'")
        if self.output is not None:
            for key in ("format", "options", "schema", "snapshot"):
                if getattr(self, "schema_" if key == "schema" else key):
                    raise validation_error(f"'{key}' goes with 'path'; another workflow's output has it already")
        elif self.file_format is None:
            raise validation_error(f"the format of '{self.path}' cannot be inferred; give 'format': {FORMATS}")
        return self

    @property
    def file_format(self) -> FileFormat | None:
        """The format given or inferred from the path; a path without suffix is a folder of Parquet files."""
        if self.path is None or self.format is not None:
            return self.format
        name = PurePosixPath(self.path.lower()).name
        for packed in _PACKED:
            name = name.removesuffix(packed)
        suffix = PurePosixPath(name).suffix
        if suffix in FORMAT_BY_SUFFIX:
            return FORMAT_BY_SUFFIX[suffix]
        return None if _FILE_SUFFIX.match(suffix) else "parquet"

    @property
    def reader_options(self) -> dict[str, str]:
        """Spark's reader options: the given ones, in addition to those that format and suffix imply. An alias of an
        option counts as given.
        """
        if self.file_format is None:
            return self.options
        declared = format_declaration(self.file_format)
        implied = dict(declared.default_options)
        for suffix, options in declared.suffixes.items():
            if options and re.search(rf"{re.escape(suffix)}(\.[a-z0-9]+)?/*\Z", self.path or "", re.IGNORECASE):
                implied |= options
        given = {_OPTION_NAMES.get(key.lower(), key.lower()) for key in self.options}
        return {**{key: value for key, value in implied.items() if key not in given}, **self.options}
