"""The file formats of sources in a workflow file: names, suffixes, reader options.

store/formats/ implements them. `format_declaration` ends in `assert_never`, so mypy reports a name in `FileFormat`
without declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never, get_args

FileFormat = Literal["parquet", "csv", "json"]
FORMAT_NAMES: tuple[FileFormat, ...] = get_args(FileFormat)

# What the value of a reader option can be; a tuple: one of these words.
OptionKind = Literal["flag", "whole", "positive", "ratio", "character", "filled", "text"]
OptionKinds = Mapping[str, OptionKind | tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class FormatDeclaration:
    """What a workflow file can state about sources of one format.

    name: the value of `format`
    suffixes: of its files, each with the reader options that it implies (`.tsv` implies tabs)
    options: Spark's reader options that can be set, with the kind of their values
    default_options: those that apply unless the workflow file sets them
    spark_reader: the name of Spark's reader, if it is not the format's own
    other_names: words that users write in `format` for this one
    """

    name: FileFormat
    suffixes: Mapping[str, Mapping[str, str]]
    options: OptionKinds
    default_options: Mapping[str, str] = field(default_factory=dict)
    spark_reader: str | None = None
    other_names: tuple[str, ...] = ()

    @property
    def reader_name(self) -> str:
        """The argument of `spark.read.format`."""
        return self.spark_reader or self.name


_MODES = ("PERMISSIVE", "FAILFAST")
_REBASE = ("EXCEPTION", "CORRECTED", "LEGACY")
_TEXTUAL: OptionKinds = {
    "charset": "filled",
    "columnNameOfCorruptRecord": "filled",
    "dateFormat": "text",
    "enableDateTimeParsingFallback": "flag",
    "encoding": "filled",
    "lineSep": "filled",
    "locale": "filled",
    "mode": _MODES,
    "multiLine": "flag",
    "samplingRatio": "ratio",
    "singleVariantColumn": "filled",
    "timeFormat": "text",
    "timeZone": "filled",
    "timestampFormat": "text",
    "timestampNTZFormat": "text",
}
_PARQUET = FormatDeclaration(
    "parquet",
    {".parquet": {}, ".pq": {}},
    {
        "datetimeRebaseMode": _REBASE,
        "int96RebaseMode": _REBASE,
        "mergeSchema": "flag",
    },
)
_CSV = FormatDeclaration(
    "csv",
    {".csv": {}, ".tsv": {"sep": "\t"}},
    {
        **_TEXTUAL,
        "charToEscapeQuoteEscaping": "character",
        "columnPruning": "flag",
        "comment": "character",
        "delimiter": "filled",
        "emptyValue": "text",
        "enforceSchema": "flag",
        "escape": "character",
        "header": "flag",
        "ignoreLeadingWhiteSpace": "flag",
        "ignoreTrailingWhiteSpace": "flag",
        "inferSchema": "flag",
        "inputBufferSize": "positive",
        "maxCharsPerColumn": "whole",
        "maxColumns": "positive",
        "nanValue": "text",
        "negativeInf": "text",
        "nullValue": "text",
        "positiveInf": "text",
        "preferDate": "flag",
        "quote": "character",
        "sep": "filled",
        "unescapedQuoteHandling": (
            "STOP_AT_CLOSING_QUOTE",
            "BACK_TO_DELIMITER",
            "STOP_AT_DELIMITER",
            "SKIP_VALUE",
            "RAISE_ERROR",
        ),
    },
    other_names=("tsv",),
)
_JSON = FormatDeclaration(
    "json",
    {".json": {}, ".jsonl": {}, ".ndjson": {}},
    {
        **_TEXTUAL,
        "allowBackslashEscapingAnyCharacter": "flag",
        "allowComments": "flag",
        "allowNonNumericNumbers": "flag",
        "allowNumericLeadingZeros": "flag",
        "allowSingleQuotes": "flag",
        "allowUnquotedControlChars": "flag",
        "allowUnquotedFieldNames": "flag",
        "dropFieldIfAllNull": "flag",
        "explodeEmbeddedArray": "flag",
        "inferTimestamp": "flag",
        "maxNestingDepth": "whole",
        "maxNumLen": "whole",
        "maxStringLen": "whole",
        "prefersDecimal": "flag",
        "primitivesAsString": "flag",
        "useUnsafeRow": "flag",
    },
    other_names=("jsonl", "ndjson"),
)


def format_declaration(name: FileFormat) -> FormatDeclaration:
    match name:
        case "parquet":
            return _PARQUET
        case "csv":
            return _CSV
        case "json":
            return _JSON
        case _:
            assert_never(name)


FORMAT_BY_SUFFIX: Mapping[str, FileFormat] = {
    suffix: name for name in FORMAT_NAMES for suffix in format_declaration(name).suffixes
}
