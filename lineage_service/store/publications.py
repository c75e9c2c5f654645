"""Publishing an output's clean copy: written beside its place, and put there only after the run is committed.

Which copies a run is going to publish stands in a note in its folder before the first of them is written. So whoever
comes after a kill knows what to do: the catalog has the run, and the copies are put in place; or it has not, and they
are removed (`unpublished`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import LineageError, Problem, RunError, StoreError, WorkflowError
from lineage_service.store.layout import PUBLICATIONS, HomeLayout, RunFolder, translate_disk_errors
from lineage_service.store.listing import is_elsewhere, local_path
from lineage_service.store.notes import note_body, note_text
from lineage_service.store.published_folder import (
    foreign_file,
    foreign_file_message,
    read_mark,
    translate_replace_errors,
    write_mark,
    writing_beside,
)

if TYPE_CHECKING:
    from lineage_service.spec.loader import LoadedWorkflow


@dataclass(frozen=True)
class Publication:
    """An output to be published: its step, the folder it goes to, and where it is written first."""

    output: str
    step: str
    target: Path
    waiting: Path


def target_path(folder: str | Path, path: str) -> Path:
    """The folder that a `path` of an output means, seen from the workflow's folder; links are followed, so that the
    same place has one name, and a link to a folder stays when the folder is replaced."""
    return Path(os.path.realpath(Path(folder).absolute() / local_path(path)))


def waiting_path(target: Path, mark: str) -> Path:
    return target.with_name(f".{target.name}.{mark}.new")


# --- what may be published where ------------------------------------------------------------------------------


def prepare_publications(loaded: LoadedWorkflow, home: HomeLayout) -> dict[str, tuple[str, Path]]:
    """The step and the target of each output to publish; WorkflowError where a target would overwrite what is not
    ours."""
    from lineage_service.spec.models import BrokenOutput

    found: dict[str, tuple[str, Path]] = {}
    problems: list[Problem] = []
    for name, output in loaded.spec.outputs.items():
        if isinstance(output, BrokenOutput) or output.path is None:
            continue
        target = target_path(loaded.path.parent, output.path)
        at = loaded.marks.at("outputs", name, "path")
        refused = (
            _refused_by_scheme(output.path)
            or _refused_by_home(target, home)
            or _refused_by_sources(target, loaded)
            or _refused_by_place(target)
            or _refused_by_others(target, loaded)
        )
        for other, (_, taken) in found.items():
            if target == taken:
                refused = (f"two outputs are published to '{target}': '{other}' and '{name}'", "name another folder")
            elif target in taken.parents or taken in target.parents:
                told = f"cannot publish to '{target}': output '{other}' is published to '{taken}'"
                refused = (f"{told}, and a copy is replaced as a whole", "name a folder beside the other")
        if refused:
            problems.append(Problem(refused[0], at, refused[1]))
        found[name] = (output.step or name, target)
    if problems:
        raise WorkflowError(problems)
    return found


def refusal(target: Path, home: HomeLayout) -> tuple[str, str] | None:
    """Why nothing can be published to a folder, and what to do; None where it can."""
    return _refused_by_home(target, home) or _refused_by_place(target)


def _refused_by_scheme(path: str) -> tuple[str, str] | None:
    if is_elsewhere(path):
        return f"cannot publish to '{path}': only local folders are written", "publish here, and copy it there"
    return None


def _refused_by_home(target: Path, home: HomeLayout) -> tuple[str, str] | None:
    own = Path(os.path.realpath(home.path))
    elsewhere = "name a folder outside of it"
    if target == own or own in target.parents:
        return (
            f"cannot publish to '{target}': it is in the home '{home.path}', which `gc` clears",
            elsewhere,
        )
    if target in own.parents:
        return f"cannot publish to '{target}': the home '{home.path}' is in it", "name another folder"
    return None


def _refused_by_place(target: Path) -> tuple[str, str] | None:
    if target.is_file():
        return f"cannot publish to '{target}': a file is there", "name a folder"
    if target.parent == target:
        return f"cannot publish to '{target}'", "name a folder"
    for above in target.parents:
        if above.is_file():
            return f"cannot publish to '{target}': '{above}' is a file", "name another folder"
        if read_mark(above) is not None:
            told = f"cannot publish to '{target}': '{above}' is a published copy, which is replaced as a whole"
            return told, "name a folder that is not in it"
    foreign = foreign_file(target)
    if foreign is not None:
        return foreign_file_message(target, foreign), f"move '{foreign}' elsewhere, or name another folder"
    return None


def _refused_by_sources(target: Path, loaded: LoadedWorkflow) -> tuple[str, str] | None:
    from lineage_service.spec.models import BrokenSource

    for name, source in loaded.spec.sources.items():
        if isinstance(source, BrokenSource) or source.path is None:
            continue
        given = loaded.path.parent.absolute() / source.path
        if _overlaps(given, target) or _overlaps(_resolve_links(given), target):
            return f"cannot publish to '{target}': source '{name}' is read from there", "name another folder"
    return None


def _resolve_links(path: Path) -> Path:
    """A path without links up to its first pattern."""
    parts = list(path.parts)
    plain = next((number for number, part in enumerate(parts) if any(each in part for each in "*?[{")), len(parts))
    return Path(os.path.realpath(Path(*parts[:plain]))).joinpath(*parts[plain:])


def _overlaps(source: Path, target: Path) -> bool:
    """Whether one of the two is, or is inside, the other; a source may be a pattern."""
    for own, other in zip(source.parts, target.parts, strict=False):
        if own == "**":
            return True
        if own != other and not fnmatchcase(other, own) and "{" not in own:
            return False
    return True


def _refused_by_others(target: Path, loaded: LoadedWorkflow) -> tuple[str, str] | None:
    mark = read_mark(target)
    if mark is None or mark.workflow in (None, loaded.spec.name):
        return None
    told = f"cannot publish to '{target}': workflow '{mark.workflow}' publishes its output '{mark.output}' there"
    return told, "name another folder, or remove this one first"


def refuse_publication(target: Path, home: HomeLayout) -> None:
    """RunError where a copy cannot be replaced: as for a run, and asked again since folders change."""
    refused = refusal(target, home)
    if refused:
        raise RunError(refused[0], hint=f"{refused[1]}; nothing was changed")


def refuse_foreign_copy(target: Path) -> None:
    """RunError where a copy that an erasure has to replace holds what is not ours. Wherever it lies: earlier versions
    published to places that are refused now, and what lies there has to go."""
    foreign = foreign_file(target)
    if foreign is not None:
        raise RunError(foreign_file_message(target, foreign), hint=f"move '{foreign}' elsewhere; nothing was changed")


# --- the note in the run's folder -----------------------------------------------------------------------------


@contextmanager
def announce_publications(folder: RunFolder, wanted: dict[str, tuple[str, Path]]) -> Iterator[list[Publication]]:
    """Notes what a run is going to publish, before any of it is written; where the run fails before its commit, the
    copies are removed. Meanwhile nobody takes them for left over."""
    found = [
        Publication(output, step, target, waiting_path(target, folder.run_id))
        for output, (step, target) in wanted.items()
    ]
    made: list[Path] = []
    with ExitStack() as locks:
        try:
            if found:
                _write_note(folder, found)
                for each in found:
                    make_parents(each, made)
                    locks.enter_context(writing_beside(each.target))
            yield found
        except BaseException:
            if not folder.is_handed_over:
                with suppress(LineageError):  # what it fails with is told; a copy that stays is found by its name
                    withdraw(folder)
                for parent in reversed(made):
                    with suppress(OSError):
                        parent.rmdir()
            raise


def make_parents(publication: Publication, made: list[Path] | None = None) -> None:
    """Makes the folders above a copy, and adds them to `made`; StoreError where it could not be put there."""
    made = [] if made is None else made
    parent = publication.target.parent
    made += [each for each in (parent, *parent.parents) if not each.exists()][::-1]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        told = f"cannot publish output '{publication.output}' to '{publication.target}': {reason}"
        raise StoreError(told, hint="nothing was changed") from error
    if not os.access(parent, os.W_OK | os.X_OK):
        told = f"cannot publish output '{publication.output}' to '{publication.target}': permission denied"
        raise StoreError(told, hint="nothing was changed")


def mark_complete(folder: RunFolder, workflow: str, publications: Sequence[Publication]) -> None:
    """The copies are written: from here on they only have to be put in place."""
    for each in publications:
        with translate_replace_errors(each.target):
            write_mark(each.waiting, folder.run_id, workflow, each.output)


def _write_note(folder: RunFolder, publications: Sequence[Publication]) -> None:
    body = [
        {"output": each.output, "step": each.step, "target": str(each.target), "waiting": str(each.waiting)}
        for each in publications
    ]
    with translate_disk_errors(folder.home.path):
        fresh = folder.path / f"{PUBLICATIONS}.new"
        fresh.write_text(note_text(body), encoding="utf-8")
        fresh.replace(folder.path / PUBLICATIONS)


def noted_publications(folder: RunFolder) -> list[Publication] | None:
    """What a run has announced and not finished; None where there is nothing."""
    try:
        body = note_body((folder.path / PUBLICATIONS).read_text(encoding="utf-8"))
        return [Publication(each["output"], each["step"], Path(each["target"]), Path(each["waiting"])) for each in body]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        note = folder.home.relative(folder.path / PUBLICATIONS)
        raise StoreError(
            f"the note '{note}' of what run '{folder.run_id}' publishes is damaged",
            hint="remove it, and copies beside published folders (.NAME.ID.new) by hand; then run the workflow again",
        ) from error


def withdraw(folder: RunFolder) -> None:
    """Removes the copies that a run announced, and then the note: it will not be committed, or must not be shown."""
    for each in noted_publications(folder) or ():
        with translate_replace_errors(each.target):
            if each.waiting.exists():
                shutil.rmtree(each.waiting)
    forget_note(folder)


def forget_note(folder: RunFolder) -> None:
    with translate_disk_errors(folder.home.path):
        (folder.path / PUBLICATIONS).unlink(missing_ok=True)
