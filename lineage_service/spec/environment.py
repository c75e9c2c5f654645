"""Values of the environment in a workflow: used by the run, and stored as references, `${env:NAME}`, never as values.

The workflow is read a second time with each value replaced by a unique mark. Where a mark ends up, the catalog gets the
reference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lineage_service.errors import LineageError, Position, Problem

KEY = "environment"  # in the content of a run: names of variables, with keyed digests of their values
_MARK = re.compile("\ue0f0([^\ue0f0\ue0f1]*)\ue0f1")
_ESCAPED = re.compile(r"\$\$\{|\$\{env:([^{}]*)\}")


class UsedEnvironment(Mapping[str, str]):
    """The environment, which records the variables that are read. With `marked`, it returns marks instead of values."""

    def __init__(self, *, marked: bool = False) -> None:
        self.marked = marked
        self.used: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        self.used[name] = os.environ[name]
        return mark_of(name) if self.marked else self.used[name]

    def __contains__(self, name: object) -> bool:
        return name in os.environ

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


@dataclass(frozen=True, slots=True)
class HiddenValues:
    """Replaces values of the environment by references in texts that are shown to users.

    texts: whole texts of a workflow with values, and the same texts with references
    values: the values, and their references
    positions: the positions of such texts in the file
    """

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    positions: frozenset[Position] = frozenset()

    def in_text(self, text: str) -> str:
        """A text that may quote whole texts of the workflow. Single values are not replaced, because an ordinary word
        may be equal to one.
        """
        return _replace_words(text, self.texts)

    def in_part(self, part: str) -> str:
        """A text that may quote any part of a text of the workflow, such as a predicate of a query."""
        return _replace_words(part, {**self.values, **self.texts})

    def in_problem(self, problem: Problem) -> Problem:
        """A problem without values. If its position is at a text with a value, the message may quote any part of that
        text.
        """
        words = {**self.values, **self.texts} if problem.position in self.positions else self.texts
        hint = None if problem.hint is None else _replace_words(problem.hint, words)
        return replace(problem, message=_replace_words(problem.message, words), hint=hint)

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """Replaces values in errors that are raised in the block."""
        try:
            yield
        except LineageError as error:
            error.problems = self.in_problems(error.problems)
            error.args = ("\n".join(map(str, error.problems)), *error.args[1:])
            raise

    def in_problems(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        return tuple(map(self.in_problem, problems))


def _replace_words(text: str, words: Mapping[str, str]) -> str:
    """Replaces all words in one pass, longer ones first: a replacement may itself contain one of the words."""
    by_length = sorted(filter(None, words), key=len, reverse=True)
    if not by_length:
        return text
    pattern = "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in by_length)
    return re.sub(pattern, lambda match: words[match[0]], text)


def texts_with_marks(used: Any, marked: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, str, str]]:
    """Yields path, text with values and text with references, for each text of a tree that has a mark in it."""
    if isinstance(marked, dict):
        for key in marked:
            yield from texts_with_marks(used[key], marked[key], (*path, key))
    elif isinstance(marked, list):
        for index, (value, mark) in enumerate(zip(used, marked, strict=True)):
            yield from texts_with_marks(value, mark, (*path, index))
    elif isinstance(marked, str) and _MARK.search(marked):
        yield path, used, _MARK.sub(r"${env:\1}", marked)


def has_mark(node: Any) -> bool:
    """Whether a part of a workflow contains a value of the environment."""
    if isinstance(node, dict):
        return any(has_mark(each) for each in (*node, *node.values()))
    if isinstance(node, list | tuple):
        return any(has_mark(each) for each in node)
    return isinstance(node, str) and _MARK.search(node) is not None


def with_references(node: Any) -> Any:
    """Replaces marks by references. A text that looks like a reference and is none is written `$${`."""
    if isinstance(node, dict):
        return {with_references(key): with_references(value) for key, value in node.items()}
    if isinstance(node, list):
        return [with_references(each) for each in node]
    return _MARK.sub(r"${env:\1}", node.replace("${", "$${")) if isinstance(node, str) else node


def mark_of(name: str) -> str:
    """The mark that replaces the value of an environment variable."""
    return f"\ue0f0{name}\ue0f1"


def with_values(node: Any, values: Mapping[str, str]) -> Any:
    """The reverse of `with_references`: replaces references by values."""
    if isinstance(node, dict):
        return {with_values(key, values): with_values(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [with_values(each, values) for each in node]
    if not isinstance(node, str):
        return node
    return _ESCAPED.sub(lambda match: "${" if match[1] is None else values[match[1]], node)
