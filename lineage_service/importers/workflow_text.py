"""A workflow as the text of a YAML file: readable, with comments, and exactly the same texts when it is read again."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from lineage_service.errors import WorkflowError
from lineage_service.importers.assembly import ImportedSource, ImportedStep, ImportedWorkflow
from lineage_service.spec.yaml_scalars import core_value
from lineage_service.spec.yaml_tree import parse_tree

_WIDTH = 118
_REFERENCE = re.compile(r"\$\{(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\})?")
_PLAIN = re.compile(r"[A-Za-z0-9_./*-][A-Za-z0-9_./*+ ()-]*")
# Characters that a YAML scalar cannot contain as they are: other line breaks, and those that YAML refuses.
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def workflow_text(workflow: ImportedWorkflow, folder: str | None = None) -> str:
    """The workflow file; with `folder`, its queries are in .sql files there."""
    return "\n".join(_lines(workflow, folder)) + "\n"


def query_files(workflow: ImportedWorkflow, folder: str) -> dict[str, str]:
    """The texts of the .sql files by their paths. A query that would not be the same in a file of its own has none."""
    return {
        f"{folder}/{step.name}.sql": _literal(step.query, workflow.variables)
        for step in workflow.steps
        if _fits_a_file(step)
    }


def _fits_a_file(step: ImportedStep) -> bool:
    return "\r\n" not in step.query and not step.query.startswith("\ufeff")


def _lines(workflow: ImportedWorkflow, folder: str | None) -> Iterator[str]:
    yield from _header(workflow)
    yield "version: 1"
    yield f"name: {workflow.name}"
    for key in ("description", "owner"):
        text = getattr(workflow, key)
        if text and text.strip():
            yield from _scalar_lines(key, text, "")
    if workflow.variables:
        yield "vars:"
        for name, value in workflow.variables.items():
            yield from _scalar_lines(name, _literal(value), "  ")
    yield ""
    yield "sources:" if workflow.sources else "sources: {}"
    for source in workflow.sources:
        yield from _source_lines(source)
    yield ""
    yield "steps:" if workflow.steps else "steps: []"
    for index, step in enumerate(workflow.steps):
        if index:
            yield ""
        yield from _step_lines(step, workflow.variables, folder)
    yield ""
    yield "outputs:" if workflow.outputs else "outputs: {}"
    for name in workflow.outputs:
        yield f"  {name}:"


def _header(workflow: ImportedWorkflow) -> Iterator[str]:
    yield from _comment(f"Imported from {workflow.tool}.")
    for title, entries in (
        ("Not imported:", list(map(str, workflow.omissions))),
        ("Named differently here:", [f"{each.what} is called {each.name}" for each in workflow.renamed]),
        ("To be checked:", list(workflow.warnings)),
        (
            "Files that are not given:",
            [f"{each.made_from}: write the path of source '{each.name}'" for each in workflow.missing],
        ),
    ):
        if entries:
            yield "#"
            yield f"# {title}"
            for entry in entries:
                yield from _comment(entry, "- ")
    yield ""


def _source_lines(source: ImportedSource) -> Iterator[str]:
    for line in source.comments:
        yield from _comment(line, indent="  ")
    if source.missing:
        yield from _comment(
            f"write the path of {source.made_from} here, or import again with {source.flag}", indent="  "
        )
    yield f"  {source.name}:"
    yield from _scalar_lines("path", _literal(source.path), "    ")
    if source.format:
        yield f"    format: {source.format}"
    if source.options:
        yield f"    options: {_flow(source.options)}"


def _step_lines(step: ImportedStep, variables: Collection[str], folder: str | None) -> Iterator[str]:
    for line in step.comments:
        yield from _comment(line, indent="  ")
    yield f"  - name: {step.name}"
    yield "    op: sql"
    if folder is not None and _fits_a_file(step):
        yield from _scalar_lines("file", _literal(f"{folder}/{step.name}.sql"), "    ")
    else:
        yield from _scalar_lines("query", _literal(step.query, variables), "    ", always_block=True)
    if step.checks:
        yield "    checks:"
        for check in step.checks:
            severity = {} if check.severity == "error" else {"severity": check.severity}
            yield f"      - {_flow({check.kind: _literal(check.value), **severity})}"


def _literal(text: str, variables: Collection[str] = ()) -> str:
    """A text in which nothing is a variable but those that are named."""
    return _REFERENCE.sub(lambda match: match[0] if match["name"] in variables else f"${match[0]}", text)


def _comment(text: str, bullet: str = "", indent: str = "") -> Iterator[str]:
    """A text as lines of a comment, at most as wide as a line of code."""
    begin, behind = f"{indent}# {bullet}", f"{indent}# {' ' * len(bullet)}"
    line = begin
    for number, part in enumerate(text.splitlines() or [""]):
        if number:
            yield line.rstrip()
            line = behind
        for word in _UNPRINTABLE.sub(_escape, part.replace("\t", " ")).split(" "):
            if len(line) + len(word) > _WIDTH and line.strip("# ") != "":
                yield line.rstrip()
                line = behind
            line += f"{word} "
    yield line.rstrip()


def _scalar_lines(key: str, text: str, indent: str, always_block: bool = False) -> Iterator[str]:
    """A key with a text, in the most readable style that gives exactly this text again."""
    if always_block or "\n" in text:
        block = list(_block_lines(key, text, indent))
        if not _UNPRINTABLE.search(text) and _reads_back(block, indent, key, text):
            yield from block
            return
    yield f"{indent}{key}: {_inline(text)}"


def _block_lines(key: str, text: str, indent: str) -> Iterator[str]:
    """A block scalar. Its indentation is said where the text's own first line would hide it."""
    lines = text.split("\n")
    body = text.rstrip("\n")
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") or not body else ""
    begin = text[: len(text) - len(text.lstrip(" \n")) + 1]  # up to the first character of a word
    hidden = " " in begin
    yield f"{indent}{key}: |{'2' if hidden else ''}{chomping}"
    for line in lines[:-1] if text.endswith("\n") else lines:
        yield f"{indent}  {line}" if line else ""


def _reads_back(lines: Iterable[str], indent: str, key: str, text: str) -> bool:
    """Whether a value is the same when it is read among other values."""
    whole = "\n".join([*(line[len(indent) :] for line in lines), "behind: 1"]) + "\n"
    try:
        return parse_tree(whole, "text").value == {key: text, "behind": 1}
    except WorkflowError:
        return False


def _flow(mapping: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {_inline(value, in_braces=True)}" for key, value in mapping.items()) + "}"


def _inline(text: str, in_braces: bool = False) -> str:
    """A text on one line: plain where that is the same text, or a flag; else in double quotes."""
    is_text = isinstance(core_value(text), str) or text in ("true", "false")
    if _PLAIN.fullmatch(text) and is_text and not text.endswith(" ") and text[0] not in "-*" and not (
        in_braces and text[0] in "()"
    ):  # fmt: skip
        return text
    return _UNPRINTABLE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
