"""What Spark throws, in the user's words: the step's place and the reason, never a Java stack trace.

Messages of the analyser name columns, types and functions and are passed on. Messages of a running job may
quote values of the data, which must not leak: of those only the kind is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException, PySparkException

from lineage_service.errors import LineageError, Position, Problem, RunError, SourceError, StoreError, WorkflowError

_KINDS = {
    "CAST_INVALID_INPUT": "a value cannot be cast; use try_cast where that is meant",
    "CAST_OVERFLOW": "a value is too large for the type it is cast to",
    "DIVIDE_BY_ZERO": "a division by zero; use try_divide or nullif where that is meant",
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
}


@contextmanager
def analysing(position: Position | None, what: str) -> Iterator[None]:
    """Errors while a step's DataFrame is built: nothing has run, and no data is in the message."""
    try:
        yield
    except ParseException as error:
        raise WorkflowError(Problem(f"{what}: {_analysis_message(error)}", position)) from error
    except PySparkException as error:
        raise WorkflowError(Problem(f"{what}: {_analysis_message(error)}", position)) from error


@contextmanager
def executing(position: Position | None, what: str, home: Path) -> Iterator[None]:
    """Errors while a job runs."""
    try:
        yield
    except LineageError:
        raise
    except AnalysisException as error:
        raise RunError(Problem(f"{what}: {_analysis_message(error)}", position)) from error
    except Exception as error:
        if not _is_spark(error):
            raise
        raise _runtime_error(error, position, what, home) from error


def _is_spark(error: Exception) -> bool:
    return isinstance(error, PySparkException) or type(error).__module__.startswith(("py4j", "pyspark", "grpc"))


def _runtime_error(error: Exception, position: Position | None, what: str, home: Path) -> LineageError:
    text = str(error)
    if "No space left on device" in text:
        return StoreError(f"cannot write to the home '{home}': the disk is full")
    if "Read-only file system" in text:
        return StoreError(f"cannot write to the home '{home}': the file system is read-only")
    if "Permission denied" in text and str(home) in text:
        return StoreError(f"cannot write to the home '{home}': permission denied")
    if "OutOfMemoryError" in text:
        return RunError(
            Problem(f"{what}: Spark ran out of memory", position, "give it more: --conf spark.driver.memory=8g")
        )
    file = re.search(
        r"(?:FAILED_READ_FILE|Encountered error while reading file|while reading file)[^\n]*?(file:\S+)", text
    )
    if "FAILED_READ_FILE" in text or "is not a Parquet file" in text:
        named = f" '{file.group(1).rstrip('.,')}'" if file else ""
        return SourceError(Problem(f"{what}: cannot read file{named}: it is damaged or has changed", position))
    condition = _condition(error, text)
    reason = _KINDS.get(condition.partition(".")[0], "")
    told = reason or (f"Spark reports {condition}" if condition else f"Spark failed ({type(error).__name__})")
    return RunError(Problem(f"{what} failed while running: {told}", position, None if reason else "see --debug"))


def _condition(error: Exception, text: str) -> str:
    """Spark's name for the error: of the root cause where the job's own is only the frame around it."""
    found = re.findall(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]", text)
    known = next((name for name in found if name.partition(".")[0] in _KINDS), None)
    if known:
        return str(known)
    if found:
        return str(found[0])
    return str(error.getCondition() or "") if isinstance(error, PySparkException) else ""


def _analysis_message(error: PySparkException) -> str:
    """The first sentence(s) of the analyser's message, without the plan and the code it is followed by."""
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
    return re.sub(r"^\[([A-Z_.0-9]+)\]\s*", "", message).strip()
