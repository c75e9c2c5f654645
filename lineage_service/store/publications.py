"""Publishes copies of outputs: each is written beside its target, and moved there after the run is committed.

Before the first copy is written, a note in the run's folder lists the copies. So after a kill the next operation knows
what to do: publish them if the catalog contains the run, otherwise remove them.
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
    """An output to be published: its step, its target folder, and the folder where it is written first."""

    output: str
    step: str
    target: Path
    waiting: Path


def target_path(folder: str | Path, path: str) -> Path:
    """The folder that an output's `path` means, relative to the workflow's folder. Links are followed, so that a place
    has only one name, and a link to a folder stays when the folder is replaced.
    """
    return Path(os.path.realpath(Path(folder).absolute() / local_path(path)))


def waiting_path(target: Path, mark: str) -> Path:
    return target.with_name(f".{target.name}.{mark}.new")


# --- what may be published where ------------------------------------------------------------------------------


def prepare_publications(loaded: LoadedWorkflow, home: HomeLayout) -> dict[str, tuple[str, Path]]:
    """The step and the target of each output to publish. Raises WorkflowError if a target would overwrite files that
    are not ours.
    """
    return _publication_targets(loaded, home)


def check_publications(loaded: LoadedWorkflow) -> None:
    """Raises WorkflowError for a target that a run would refuse, as far as this is known without a home."""
    _publication_targets(loaded, None)


def _publication_targets(loaded: LoadedWorkflow, home: HomeLayout | None) -> dict[str, tuple[str, Path]]:
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
            or (_refused_by_home(target, home) if home is not None else None)
            or _refused_by_sources(target, loaded)
            or _refused_by_place(target)
            or _refused_by_others(target, loaded)
        )
        for other, (_, taken) in found.items():
            if target == taken:
                refused = (f"two outputs are published to '{target}': '{other}' and '{name}'", "name another folder")
            elif target in taken.parents or taken in target.parents:
                message = f"cannot publish to '{target}': output '{other}' is published to '{taken}'"
                refused = (f"{message}, and a copy is replaced as a whole", "name a folder beside the other")
        if refused:
            problems.append(Problem(refused[0], at, refused[1]))
        found[name] = (output.step or name, target)
    if problems:
        raise WorkflowError(problems)
    return found


def refusal(target: Path, home: HomeLayout) -> tuple[str, str] | None:
    """Why nothing can be published to a folder, with a hint; None if it can."""
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
            message = f"cannot publish to '{target}': '{above}' is a published copy, which is replaced as a whole"
            return message, "name a folder that is not in it"
    foreign = foreign_file(target)
    if foreign is not None:
        return foreign_file_message(target, foreign), f"move '{foreign}' elsewhere, or name another folder"
    return None


def _refused_by_sources(target: Path, loaded: LoadedWorkflow) -> tuple[str, str] | None:
    for name, source in loaded.spec.valid_sources.items():
        if source.path is None:
            continue
        given = loaded.path.parent.absolute() / source.path
        if _overlaps(given, target) or _overlaps(_resolve_links(given), target):
            return f"cannot publish to '{target}': source '{name}' is read from there", "name another folder"
    return None


def _resolve_links(path: Path) -> Path:
    """A path without links up to its first glob pattern."""
    parts = list(path.parts)
    plain = next((number for number, part in enumerate(parts) if any(each in part for each in "*?[{")), len(parts))
    return Path(os.path.realpath(Path(*parts[:plain]))).joinpath(*parts[plain:])


def _overlaps(source: Path, target: Path) -> bool:
    """Whether one of the two is, or is inside, the other. A source may be a glob pattern."""
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
    message = f"cannot publish to '{target}': workflow '{mark.workflow}' publishes its output '{mark.output}' there"
    return message, "name another folder, or remove this one first"


def refuse_publication(target: Path, home: HomeLayout) -> None:
    """Raises RunError if a copy cannot be replaced. The same checks as for a run, repeated because folders change."""
    refused = refusal(target, home)
    if refused:
        raise RunError(refused[0], hint=f"{refused[1]}; nothing was changed")


def refuse_foreign_copy(target: Path) -> None:
    """Raises RunError if a copy that an erasure has to replace contains files that are not ours. The place is not
    checked, because earlier versions published to places that are refused now.
    """
    foreign = foreign_file(target)
    if foreign is not None:
        raise RunError(foreign_file_message(target, foreign), hint=f"move '{foreign}' elsewhere; nothing was changed")


# --- the note in the run's folder -----------------------------------------------------------------------------


@contextmanager
def announce_publications(folder: RunFolder, wanted: dict[str, tuple[str, Path]]) -> Iterator[list[Publication]]:
    """Notes what a run is going to publish, before any of it is written. If the run fails before its commit, the copies
    are removed. Meanwhile they are not treated as left over.
    """
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
    """Creates the folders above a copy and adds them to `made`. Raises StoreError if the copy could not be
    moved there.
    """
    made = [] if made is None else made
    parent = publication.target.parent
    made += [each for each in (parent, *parent.parents) if not each.exists()][::-1]
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        message = f"cannot publish output '{publication.output}' to '{publication.target}': {reason}"
        raise StoreError(message, hint="nothing was changed") from error
    if not os.access(parent, os.W_OK | os.X_OK):
        message = f"cannot publish output '{publication.output}' to '{publication.target}': permission denied"
        raise StoreError(message, hint="nothing was changed")


def mark_complete(folder: RunFolder, workflow: str, publications: Sequence[Publication]) -> None:
    """Records that the copies are complete and only have to be moved."""
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
    """What a run has announced and not finished; None if there is nothing."""
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
    """Removes the copies that a run announced, and then the note."""
    for each in noted_publications(folder) or ():
        with translate_replace_errors(each.target):
            if each.waiting.exists():
                shutil.rmtree(each.waiting)
    forget_note(folder)


def forget_note(folder: RunFolder) -> None:
    with translate_disk_errors(folder.home.path):
        (folder.path / PUBLICATIONS).unlink(missing_ok=True)
