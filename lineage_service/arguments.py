"""Checks arguments of the public methods against their annotations.

A wrong argument raises a QuestionError that says what is expected. Values are never quoted, because they may be
personal data.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from lineage_service.errors import QuestionError, did_you_mean, join_names

Class = TypeVar("Class", bound=type)
Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    return isinstance(value, str | Path)


def _is_whole_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (hasattr(value, "__index__") and not isinstance(value, str))


def _is_count(value: Any) -> bool:
    return _is_whole_number(value) and int(value) >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _all_match(value: Any, check: Check) -> bool:
    """Whether all items match. Iterators, which can be read only once, are not checked."""
    return _is_iterable(value) and (not isinstance(value, Collection) or all(map(check, value)))


def _is_text_list(value: Any) -> bool:
    return _all_match(value, _is_text)


def is_column_value(value: Any) -> bool:
    """Whether a column can have this value, so that comparing it makes sense: no list, no mapping, no other object."""
    if hasattr(value, "as_py"):  # a scalar of Arrow
        return is_column_value(value.as_py())
    if hasattr(value, "dtype"):  # a scalar of NumPy, or an array
        return getattr(value, "shape", None) == ()
    return isinstance(value, str | int | float | Decimal | date | time | timedelta | UUID)


def _is_key_mapping(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_key_pair, value.items()))
    return _all_match(value, _is_key_pair)


def _is_key_pair(pair: Any) -> bool:
    return (
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and _is_text(pair[0])
        and (pair[1] is None or is_column_value(pair[1]))  # None has a message of its own
    )


def _is_sources(value: Any) -> bool:
    def is_source(pair: Any) -> bool:
        return isinstance(pair, tuple | list) and len(pair) == 2 and _is_text(pair[0]) and _is_path(pair[1])

    return _all_match(list(value.items()) if isinstance(value, Mapping) else value, is_source)


def _is_row_ids(value: Any) -> bool:
    return _is_whole_number(value) or (
        _all_match(value, _is_whole_number) if isinstance(value, list | tuple | set) else _is_iterable(value)
    )


def _mapping(of: Check) -> Check:
    return lambda value: isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(of, value.values()))


def _is_names(value: Any) -> bool:
    return _is_text(value) or _is_text_list(value)


def _is_subject(value: Any) -> bool:
    """Whether a person is named by `KIND=VALUE`, a pair of kind and value, or an object with both."""
    if isinstance(value, tuple):
        return len(value) == 2 and _is_text(value[0]) and is_column_value(value[1])
    return _is_text(value) or (_is_text(getattr(value, "kind", None)) and _is_text(getattr(value, "value", None)))


def _is_subjects(value: Any) -> bool:
    return _is_subject(value) or _all_match(value, _is_subject)


def _is_instance_named(name: str) -> Check:
    """Checks for a class by its name: the class itself lies in a layer above."""
    return lambda value: any(each.__name__ == name for each in type(value).__mro__)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _accept_any(_: Any) -> bool:
    return True


# By annotation: the check, a description of what is expected, and an example.
CHECKS: dict[str, tuple[Check, str, str]] = {
    "str": (_is_text, "text", "'name'"),
    "str | None": (_or_none(_is_text), "text", "'name'"),
    "str | Path": (_is_path, "a path", "'folder/file'"),
    "str | Path | None": (_or_none(_is_path), "a path", "'folder/file'"),
    "bool": (lambda value: isinstance(value, bool), "True or False", "True"),
    "int": (_is_count, "a whole number of 0 or more", "3"),
    "int | None": (_or_none(_is_count), "a whole number of 0 or more", "3"),
    "float": (_is_number, "a number", "1.5"),
    "float | None": (_or_none(_is_number), "a number", "1.5"),
    "Rids": (_or_none(_is_row_ids), "row ids: a whole number, or several", "7 or [7, 8]"),
    "Keys": (_or_none(_is_key_mapping), "a mapping of columns to values", "{'column': 'value'}"),
    "Names": (_or_none(_is_names), "a name, or a list of names", "'name' or ['one', 'other']"),
    "Sequence[str] | None": (_or_none(_is_names), "a list of names", "['one', 'other']"),
    "Iterable[str] | None": (_or_none(_is_text_list), "several texts", "['one', 'other']"),
    "Mapping[str, str] | None": (_or_none(_mapping(_is_scalar)), "a mapping of names to texts", "{'name': 'value'}"),
    "Mapping[str, str | None]": (_mapping(_or_none(_is_text)), "a mapping of columns to texts", "{'column': 'value'}"),
    "Mapping[str, Names] | None": (_or_none(_mapping(_is_names)),
                                   "a mapping of sources to columns", "{'source': ['id']}"),
    "Mapping[str, str | float] | None": (_or_none(_mapping(lambda value: _is_text(value) or _is_number(value))),
                                         "a mapping of datasets to a column or a number", "{'source': 'price'}"),
    "Mapping[str, str | int | Iterable[int]] | None": (
        _or_none(_mapping(lambda value: _is_text(value) or _is_row_ids(value))),
        "a mapping of datasets to a predicate or row ids", "{'source': [7, 8]}"),
    "Sources": (_or_none(_is_sources), "a mapping of tables to paths", "{'orders': 'data/orders'}"),
    "Callable[[ChainResult], None] | None": (_or_none(callable), "a function", "print"),
    "Tell | None": (_or_none(callable), "a function", "print"),
    # Types that other modules parse and check themselves.
    "Any": (_accept_any, "", ""),
    "Callable[[], Given]": (callable, "a function", "print"),
    "Callable[[], Answered]": (callable, "a function", "print"),
    "Given | Iterable[Given]": (_is_subjects, "a person, KIND=VALUE, or several", "'customer=42'"),
    "CaseOptions | None": (_or_none(_is_instance_named("CaseOptions")), "CaseOptions", "CaseOptions(request='R1')"),
    "IndexOptions | None": (_or_none(_is_instance_named("IndexOptions")), "IndexOptions",
                            "IndexOptions(master='local[2]')"),
}  # fmt: skip


# Parameters with a narrower type than their annotation.
NARROWER: dict[str, tuple[Check, str, str]] = {
    "top": (_or_none(lambda value: _is_count(value) and value >= 1), "a whole number, 1 or larger", "3"),
}


def checked_arguments(made: Class) -> Class:
    """Decorates a class so that its public methods check their arguments by annotation."""
    for name, method in list(vars(made).items()):
        if name.startswith("_"):
            continue
        if isinstance(method, classmethod):
            setattr(made, name, classmethod(_checking_method(method.__func__)))
        elif inspect.isfunction(method):
            setattr(made, name, _checking_method(method))
    return made


def as_tuple(value: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """One name or several as a tuple; None if nothing is given."""
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)


def names_of_datasets(value: str | Iterable[str] | None, argument: str) -> tuple[str, ...] | None:
    """The names in an argument; None if it is not given. Raises QuestionError for an empty list, which asks for nothing
    and would look like an answer without rows.
    """
    names = as_tuple(value)
    if names == ():
        raise QuestionError(
            f"'{argument}' names no dataset: the list is empty", hint=f"for example {argument}=['one', 'other']"
        )
    return names


def _checking_method(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    parameters = signature.parameters

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        _refuse_wrong(method.__name__, signature, parameters, given, named)
        return method(*given, **named)

    return call


def _refuse_wrong(
    verb: str,
    signature: inspect.Signature,
    parameters: Mapping[str, inspect.Parameter],
    given: tuple[Any, ...],
    named: Mapping[str, Any],
) -> None:
    takes = [name for name in list(parameters)[1:] if parameters[name].kind is not inspect.Parameter.VAR_POSITIONAL]
    for name in named:
        if name not in takes:
            hint = did_you_mean(name, takes)
            raise QuestionError(f"{verb}() has no argument '{name}'; its arguments: {join_names(takes, 40)}", hint=hint)
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        needed = [name for name in takes if parameters[name].default is inspect.Parameter.empty]
        reason = str(error)
        if reason.startswith("missing"):
            absent = [name for name in needed[max(0, len(given) - 1) :] if name not in named]
            raise QuestionError(f"{verb}() needs {join_names([repr(name) for name in absent])}") from None
        if "multiple values" in reason:
            raise QuestionError(f"{verb}() is given an argument twice, by position and by name") from None
        positional = [name for name in takes if parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        others = [f"{name}=…" for name in takes if name not in positional]
        raise QuestionError(
            f"{verb}() takes {join_names(positional)} by position; every other argument needs its name",
            hint=f"write them with their names: {join_names(others, 4)}",
        ) from None
    for name, value in list(bound.arguments.items())[1:]:
        parameter = parameters[name]
        values = value if parameter.kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        check, expected, example = NARROWER.get(name) or CHECKS.get(str(parameter.annotation), CHECKS["Any"])
        for each in values:
            if not check(each):
                shown = example if parameter.kind is inspect.Parameter.VAR_POSITIONAL else f"{name}={example}"
                raise QuestionError(
                    f"'{name}' of {verb}() needs {expected}, not {_describe_value(each, expected)}",
                    hint=f"for example {shown}",
                )


def _describe_value(value: Any, expected: str) -> str:
    """Describes a value by its type, without the value."""
    if value is None:
        return "None"
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return "a negative number"
    if isinstance(value, Mapping):
        return "such a mapping" if expected.startswith("a mapping") else "a mapping"
    names = {"str": "text", "int": "a number", "float": "a number with decimals", "bool": "True or False",
             "bytes": "bytes", "list": "such a list", "tuple": "such a tuple"}  # fmt: skip
    return names.get(type(value).__name__, f"a {type(value).__name__}")
