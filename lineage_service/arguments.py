"""Arguments of the public methods, checked against their annotations: a wrong one is a QuestionError that says what is
expected, and not an error of whatever stumbles over it. Values are never quoted: they may be personal data."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

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
    """Whether all of several are right; what can be read only once is taken on trust."""
    return _is_iterable(value) and (not isinstance(value, Collection) or all(map(check, value)))


def _is_text_list(value: Any) -> bool:
    return _all_match(value, _is_text)


def _is_key_mapping(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_text, value))
    return _all_match(value, lambda each: isinstance(each, tuple | list) and len(each) == 2 and _is_text(each[0]))


def _is_row_ids(value: Any) -> bool:
    return _is_whole_number(value) or (
        _all_match(value, _is_whole_number) if isinstance(value, list | tuple | set) else _is_iterable(value)
    )


def _mapping(of: Check) -> Check:
    return lambda value: isinstance(value, Mapping) and all(map(_is_text, value)) and all(map(of, value.values()))


def _is_names(value: Any) -> bool:
    return _is_text(value) or _is_text_list(value)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _accept_any(_: Any) -> bool:
    return True


# By annotation: the check, what is expected, and an example of it.
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
    "Iterable[str] | None": (_or_none(_is_iterable), "several texts", "['one', 'other']"),
    "Mapping[str, str] | None": (_or_none(_mapping(_is_scalar)), "a mapping of names to texts", "{'name': 'value'}"),
    "Mapping[str, str | None]": (_mapping(_or_none(_is_text)), "a mapping of columns to texts", "{'column': 'value'}"),
    "Mapping[str, Names] | None": (_or_none(_mapping(_is_names)),
                                   "a mapping of sources to columns", "{'source': ['id']}"),
    "Mapping[str, str | float] | None": (_or_none(_mapping(lambda value: _is_text(value) or _is_number(value))),
                                         "a mapping of datasets to a column or a number", "{'source': 'price'}"),
    "Mapping[str, str | int | Iterable[int]] | None": (
        _or_none(_mapping(lambda value: _is_text(value) or _is_row_ids(value))),
        "a mapping of datasets to a predicate or row ids", "{'source': [7, 8]}"),
    "Tell | None": (_or_none(callable), "a function", "print"),
    # Values that other modules read, and refuse in words of their own.
    "Any": (_accept_any, "", ""),
    "Callable[[], Given]": (callable, "a function", "print"),
    "Callable[[], Answered]": (callable, "a function", "print"),
    "Given | Iterable[Given]": (_accept_any, "", ""),
    "CaseOptions | None": (_accept_any, "", ""),
    "IndexOptions | None": (_accept_any, "", ""),
}  # fmt: skip


# Parameters that are narrower than their annotation.
NARROWER: dict[str, tuple[Check, str, str]] = {
    "top": (_or_none(lambda value: _is_count(value) and value >= 1), "a whole number, 1 or larger", "3"),
}


def checked_arguments(made: Class) -> Class:
    """A class whose public methods check what they are given, by the annotations of their parameters."""
    for name, method in list(vars(made).items()):
        if name.startswith("_"):
            continue
        if isinstance(method, classmethod):
            setattr(made, name, classmethod(_checking_method(method.__func__)))
        elif inspect.isfunction(method):
            setattr(made, name, _checking_method(method))
    return made


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
            raise QuestionError(f"{verb}() is given an argument twice, by place and by name") from None
        positional = [name for name in takes if parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        others = [f"{name}=…" for name in takes if name not in positional]
        raise QuestionError(
            f"{verb}() takes {join_names(positional)} by place; every other argument is named",
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
    """What a value is, without the value."""
    if value is None:
        return "None"
    if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
        return "a negative number"
    if isinstance(value, Mapping):
        return "such a mapping" if expected.startswith("a mapping") else "a mapping"
    names = {"str": "text", "int": "a number", "float": "a number with decimals", "bool": "True or False",
             "bytes": "bytes", "list": "such a list", "tuple": "such a tuple"}  # fmt: skip
    return names.get(type(value).__name__, f"a {type(value).__name__}")
