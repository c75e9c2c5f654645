"""Spark's reader options by format: their names, and the values that they accept.

Spark ignores unknown options, and fails on `header: yes` only when it reads, so mistakes would be noticed late or
never. Options that select files or leave out records are refused, because positions would no longer be those of the
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lineage_service.errors import did_you_mean, join_names
from lineage_service.spec.file_formats import FORMAT_NAMES, FileFormat, OptionKind, OptionKinds, format_declaration
from lineage_service.spec.source_models import SourceSpec


@dataclass(frozen=True, slots=True)
class OptionProblem:
    """A problem of one option. `of_key`: the name is wrong, not the value."""

    key: str
    message: str
    hint: str | None = None
    of_key: bool = False
    severity: Literal["error", "warning"] = "error"


KNOWN: Mapping[FileFormat, OptionKinds] = {name: format_declaration(name).options for name in FORMAT_NAMES}

_BY_PATH = "smoke-lineage lists the files itself, so that every row keeps its position"
_SELECT = "choose the files with `path`: a file, a folder or a glob"
_SKIPS = "the rows of a file that is skipped would be missing without notice"
REFUSED: dict[str, tuple[str, str | None]] = {
    "basePath": (_BY_PATH, "partition columns are those of the folders below `path`"),
    "ignoreCorruptFiles": (_SKIPS, "remove the damaged file from `path`"),
    "ignoreInvalidPartitionPaths": (_BY_PATH, _SELECT),
    "ignoreMissingFiles": (_SKIPS, _SELECT),
    "ignoredPathSegmentRegex": (_BY_PATH, _SELECT),
    "modifiedAfter": (_BY_PATH, _SELECT),
    "modifiedBefore": (_BY_PATH, _SELECT),
    "pathGlobFilter": (_BY_PATH, _SELECT),
    "recursiveFileLookup": (
        _BY_PATH,
        "in a glob, `**` stands for any folders",
    ),
}
WRITERS = ("codec", "compression", "escapeQuotes", "extension", "ignoreNullFields", "parquet.compression", "pretty",
           "quoteAll", "sortKeys", "writeNonAsciiCharacterAsCodePoint")  # fmt: skip
_NO_DROPPING = "mode DROPMALFORMED would shift the positions of the records behind a dropped one"
_INSTEAD_OF_DROPPING = "leave out `mode` to have bad records reported, or use PERMISSIVE to keep them with nulls"


def option_problems(source: SourceSpec) -> Iterator[OptionProblem]:
    """All problems of a source's options. Names are compared without regard to case, as in Spark."""
    kind = source.file_format
    if kind is None:
        return
    known = {name.lower(): (name, takes) for name, takes in KNOWN[kind].items()}
    seen: dict[str, str] = {}
    for key, value in source.options.items():
        if key.lower() in seen:
            message = f"option '{key}' is given twice: Spark does not tell it from '{seen[key.lower()]}'"
            yield OptionProblem(key, message, of_key=True)
            continue
        seen[key.lower()] = key
        if key.lower() in known:
            name, takes = known[key.lower()]
            problem = _value_problem(key, name, takes, value)
            if problem is not None:
                yield problem
        else:
            yield _unknown_option_problem(key, kind)
    if "columnnameofcorruptrecord" in seen and not _is_permissive(source.options):
        yield OptionProblem(
            seen["columnnameofcorruptrecord"], "a record that does not fit fails the run, so no column can hold it",
            "add `mode: PERMISSIVE`, or leave the option out", of_key=True,
        )  # fmt: skip


def _is_permissive(options: Mapping[str, str]) -> bool:
    return any(key.lower() == "mode" and value.upper() == "PERMISSIVE" for key, value in options.items())


def _unknown_option_problem(key: str, kind: FileFormat) -> OptionProblem:
    refused = next((name for name in REFUSED if name.lower() == key.lower()), None)
    if refused is not None:
        reason, hint = REFUSED[refused]
        return OptionProblem(key, f"option '{refused}' cannot be used: {reason}", hint, of_key=True)
    if key.lower() in (name.lower() for name in WRITERS):
        message = f"option '{key}' is one of Spark's writer and has no effect on what is read"
        return OptionProblem(key, message, "remove it", of_key=True, severity="warning")
    if "." in key:
        message = f"'{key}' is a setting of Spark or Hadoop, and no reader option"
        setting = key if key.startswith("spark.") else f"spark.hadoop.{key}"
        return OptionProblem(key, message, f"give it to the run: --conf {setting}=…", of_key=True)
    others = [other for other in KNOWN if any(name.lower() == key.lower() for name in KNOWN[other])]
    by_lower = {name.lower(): name for name in KNOWN[kind]}
    hint = did_you_mean(key.lower(), by_lower)
    similar = hint and hint.replace(*_option_spelling(hint, by_lower))
    whole_hint = f"it is an option of {join_names([other.upper() for other in others])} sources" if others else similar
    message = f"unknown option '{key}' of a {kind.upper()} source; options: {join_names(sorted(KNOWN[kind]), 40)}"
    return OptionProblem(key, message, whole_hint, of_key=True)


def _option_spelling(hint: str, by_lower: Mapping[str, str]) -> tuple[str, str]:
    word = re.findall(r"'([^']*)'", hint)[0]
    return word, by_lower[word]


def _value_problem(key: str, name: str, takes: OptionKind | tuple[str, ...], value: str) -> OptionProblem | None:
    if isinstance(takes, tuple):
        if value.upper() in takes:
            return None
        if name == "mode" and value.upper() == "DROPMALFORMED":
            return OptionProblem(key, _NO_DROPPING, _INSTEAD_OF_DROPPING)
        hint = did_you_mean(value.upper(), takes)
        return OptionProblem(key, f"option '{key}' is '{value}'; it can be: {join_names(takes)}", hint)
    wrong = _value_requirement(takes, value)
    if wrong is None:
        return None
    needed, hint = wrong
    return OptionProblem(key, f"option '{key}' needs {needed}, not '{value}'", hint)


_FLAGS = {"yes": "true", "y": "true", "on": "true", "1": "true", "no": "false", "n": "false", "off": "false",
          "0": "false"}  # fmt: skip


def _value_requirement(takes: OptionKind, value: str) -> tuple[str, str | None] | None:
    """What is required instead of the value, and a hint; None if the value is right."""
    match takes:
        case "flag" if value.lower() not in ("true", "false"):
            meant = _FLAGS.get(value.lower())
            return "true or false", (
                f"write `{meant}`: in YAML 1.2 only true and false are booleans, '{value}' is text" if meant else None
            )
        case "whole" if not re.fullmatch(r"[+-]?[0-9]{1,10}", value) or abs(int(value)) >= 2**31:
            return "a whole number", None
        case "positive" if not re.fullmatch(r"[+]?0*[1-9][0-9]{0,9}", value) or int(value) >= 2**31:
            return "a whole number of 1 or more", None
        case "ratio" if not re.fullmatch(r"0*(\.[0-9]+)?|0*1(\.0*)?|[0-9.]+[eE]-[0-9]+", value) or not value:
            return "a number above 0 and up to 1", None
        case "character" if len(value.encode("utf-16-le")) > 2:
            return "a single character", 'a tab is written "\\t", in double quotes' if value == "\\t" else None
        case "filled" if not value:
            return "a value that is not empty", None
        case _:
            return None
