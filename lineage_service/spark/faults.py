"""Translates Spark's errors into messages with the position of the step and the reason, without Java stack traces.

Messages of the analyser contain names of columns, types and functions, and are passed on. Messages of running jobs may
quote values of the data, so only the kind of error is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import AnalysisException, PySparkException

from lineage_service.errors import (
    CaptureSuspect,
    LineageError,
    Position,
    Problem,
    RunError,
    SourceError,
    StoreError,
    WorkflowError,
)
from lineage_service.plan.from_sql.runtime_errors import recognised_error

# What failed and what to write instead, by Spark's name for the error.
_KINDS = {
    "CAST_INVALID_INPUT": "a value cannot be cast; use try_cast where that is meant",
    "CAST_OVERFLOW": "a value is too large for the type it is cast to",
    "DIVIDE_BY_ZERO": "a division by zero; use try_divide or nullif where that is meant",
    "INCONSISTENT_BEHAVIOR_CROSS_VERSION": "a datetime pattern or value that Spark has read in another way before "
    "version 3; write 'yyyy' for the year, or use a pattern of Spark 3",
    "REMAINDER_BY_ZERO": "a division by zero",
    "ARITHMETIC_OVERFLOW": "a number is too large for its type; use try_add, try_multiply or a wider type",
    "NUMERIC_VALUE_OUT_OF_RANGE": "a number is too large for its decimal type",
    "INVALID_ARRAY_INDEX": "an array index is out of range; use get or try_element_at where that is meant",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "an array index is out of range; use try_element_at where that is meant",
    "CANNOT_PARSE_TIMESTAMP": "a text is no timestamp; use try_to_timestamp where that is meant",
    "USER_RAISED_EXCEPTION": "the workflow's own raise_error or assert_true",
    "DATETIME_OVERFLOW": "a date or time is out of range",
    "MALFORMED_RECORD_IN_PARSING": "a record cannot be parsed",
    "MAP_DUPLICATE_KEY": "a map has a key twice",
    "DUPLICATED_MAP_KEY": "a map has a key twice",
    "DATETIME_FIELD_OUT_OF_BOUNDS": "a part of a date or time is out of range",
    "INTERVAL_ARITHMETIC_OVERFLOW": "an interval is too large",
    "INTERVAL_DIVIDED_BY_ZERO": "an interval is divided by zero",
    "INVALID_PARAMETER_VALUE": "an argument of a function is not one that it takes",
    "INVALID_FORMAT": "a text does not have the format that is asked for",
    "CONVERSION_INVALID_INPUT": "a text cannot be converted",
    "CANNOT_DECODE_URL": "a text is no encoded URL",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": "a subquery gives more than one row",
}


OWN_FAULT = "smoke-lineage: "  # what our own expressions stop a job with begins so

# Why a file cannot be read, by what Spark says of it.
_UNREADABLE = {
    "PARQUET_COLUMN_DATA_TYPE_MISMATCH": "a column is of another type than declared, or than in the other files",
    "CSV header does not conform": "its header differs from the other files'",
    "Number of column in CSV header": "its header differs from the other files'",
}
_HINTS = {
    "(NANOS": "Spark reads microseconds: write the file with them, as pyarrow does with coerce_timestamps='us'",
}


@contextmanager
def analysing(position: Position | None, what: str) -> Iterator[None]:
    """Translates errors of the analyser. No job runs in the block, so messages contain no data."""
    try:
        yield
    except PySparkException as error:
        message = _analysis_message(error)
        hint = next((hint for sign, hint in _HINTS.items() if sign in message), None)
        raise WorkflowError(Problem(f"{what}: {message}", position, hint)) from error
    except Exception as error:
        if not is_spark_error(error):
            raise
        # Reading a schema from the data may fail too, with a message that quotes it.
        raise WorkflowError(Problem(f"{what}: Spark cannot open it", position, "see --debug")) from error


@contextmanager
def executing(position: Position | None, what: str, home: Path) -> Iterator[None]:
    """Translates errors of running jobs."""
    try:
        yield
    except LineageError:
        raise
    except AnalysisException as error:
        raise RunError(Problem(f"{what}: {_analysis_message(error)}", position)) from error
    except Exception as error:
        if not is_spark_error(error):
            raise
        raise _runtime_error(error, position, what, home) from error


def is_spark_error(error: Exception) -> bool:
    if isinstance(error, ConnectionRefusedError | ConnectionResetError):
        return True
    return isinstance(error, PySparkException) or type(error).__module__.startswith(("py4j", "pyspark", "grpc"))


def _runtime_error(error: Exception, position: Position | None, what: str, home: Path) -> LineageError:
    text = str(error)
    own = re.search(re.escape(OWN_FAULT) + r"[A-Za-z ]+", text)
    if own:
        return RunError(Problem(f"{what}: {own[0].removeprefix(OWN_FAULT)}", position, "this is a bug; see --debug"))
    more_rows = recognised_error(text)
    if more_rows is not None:
        instead = "make it an aggregate, such as max(…), or add ORDER BY and LIMIT 1"
        return RunError(Problem(f"{what} failed while running: {more_rows}", position, instead))
    if "No space left on device" in text:
        return StoreError(f"cannot write to the home '{home}': the disk is full")
    if "Read-only file system" in text:
        return StoreError(f"cannot write to the home '{home}': the file system is read-only")
    if "Permission denied" in text and str(home) in text:
        return StoreError(f"cannot write to the home '{home}': permission denied")
    program = re.search(r'Cannot run program "([\w./-]+)"', text)
    if program:
        return RunError(Problem(f"{what}: Spark cannot run the program '{program[1]}'", position, "is it on PATH?"))
    if "OutOfMemoryError" in text:
        return CaptureSuspect(
            Problem(f"{what}: Spark ran out of memory", position, "give it more: --conf spark.driver.memory=8g")
        )
    if any(sign in text for sign in _TOO_LARGE):
        return CaptureSuspect(Problem(f"{what}: a row or list is too large for Spark (2 GiB)", position))
    if _is_gone(error, text):
        return CaptureSuspect(
            Problem(f"{what}: Spark's process ended, as it does when it runs out of memory", position,
                    "give it more: --conf spark.driver.memory=8g")
        )  # fmt: skip
    file = re.search(
        r"(?:FAILED_READ_FILE|Encountered error while reading file|while reading file)[^\n]*?(file:\S+)", text
    )
    if "FAILED_READ_FILE" in text or "is not a Parquet file" in text:
        named = _describe_file(file.group(1).rstrip(".,"), home) if file else "a file"
        reason = next(
            (reported for sign, reported in _UNREADABLE.items() if sign in text), "it is damaged or has changed"
        )
        return SourceError(Problem(f"{what}: cannot read {named}: {reason}", position))
    reason, hint = data_error_reason(error)
    if reason:
        return RunError(Problem(f"{what} failed while running: {reason}", position, hint))
    condition = error_condition(error)
    reported = f"Spark reports {condition}" if condition else f"Spark failed ({type(error).__name__})"
    return CaptureSuspect(Problem(f"{what} failed while running: {reported}", position, "see --debug"))


def data_error_reason(error: Exception) -> tuple[str, str | None]:
    """The property of the data that made a job fail, without values, and a hint; empty if unknown.

    Errors of SQL's classes 22 and 23 are caused by data, whatever else Spark calls them.
    """
    condition, state = error_condition(error), sql_state(error)
    reason, _, instead = _KINDS.get(condition.partition(".")[0], "").partition("; ")
    if not reason and state.startswith(("22", "23")):
        reason = f"Spark reports {condition}"
    types = _cast_types(error)
    return (f"{reason} ({types})" if reason and types else reason), instead or None


def _cast_types(error: Exception) -> str:
    """The types of a failed cast, from which and to which."""
    try:
        given = error.getMessageParameters()  # type: ignore[attr-defined]
    except Exception:  # errors that only Java knows have none
        return ""
    named = [str(given.get(key, "")).strip('"') for key in ("sourceType", "targetType")]
    return " to ".join(named) if all(re.fullmatch(r"[A-Z][A-Z0-9_(),<>: ]*", name) for name in named) else ""


def sql_state(error: Exception) -> str:
    found = re.search(r"SQLSTATE: (\w{5})", str(error))
    if found:
        return found[1]
    return str(error.getSqlState() or "") if isinstance(error, PySparkException) else ""


_TOO_LARGE = ("Cannot grow BufferHolder", "NegativeArraySizeException", "exceeds the maximum array size",
              "array size exceeding the array size limit", "COLLECTION_SIZE_LIMIT_EXCEEDED")  # fmt: skip


def _is_gone(error: Exception, text: str) -> bool:
    """Whether the Java process of the job no longer runs."""
    gone = ("Connection refused", "Answer from Java side is empty", "Error while sending or receiving")
    return type(error).__name__ in ("Py4JNetworkError", "ConnectionRefusedError") or any(sign in text for sign in gone)


def _describe_file(uri: str, home: Path) -> str:
    """A file under the name that the user knows. For a copy in the home, which is removed with the failed run, that of
    its source.
    """
    path = Path(unquote(urlsplit(uri).path))
    parts = path.relative_to(home).parts if path.is_relative_to(home) else ()
    return f"the copy of source '{parts[3]}'" if parts[2:3] == ("sources",) else f"file '{path}'"


def error_condition(error: Exception) -> str:
    """Spark's name of the error; that of the root cause if the job's own error only wraps it."""
    text = str(error)
    found = re.findall(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]", text)
    known = next((name for name in found if name.partition(".")[0] in _KINDS), None)
    if known:
        return str(known)
    if found:
        return str(found[0])
    return str(error.getCondition() or "") if isinstance(error, PySparkException) else ""


def _analysis_message(error: PySparkException) -> str:
    """The first sentences of the analyser's message, without the plan and code that follow."""
    text = str(error).split("\n\nJVM stacktrace")[0]
    text = text.split(";\n")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kept: list[str] = []
    for line in lines:
        if line.startswith(("==", "'", "+-", ":-", "JVM", "\tat", "at org.")):
            break
        kept.append(line)
    message = " ".join(kept) or text[:200]
    message = re.sub(r"\s*SQLSTATE: \w+", "", message)
    message = re.sub(r";? line 1 pos \d+;?$", "", message.strip())  # of an expression, whose place is told beside it
    return re.sub(r"^\[([A-Z_.0-9]+)\]\s*", "", message).strip()
