"""Publishing an output's clean copy: written beside its place, and put there only after the run is committed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lineage_service.errors import Problem, StoreError, WorkflowError
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenOutput, BrokenSource
from lineage_service.store.layout import new_run_id

MARK = "_smoke_lineage"  # readers of Parquet folders pass over names that begin with an underscore


@dataclass(frozen=True)
class Publication:
    """An output to be published: its step, the folder it goes to, and where it is written first."""

    output: str
    step: str
    target: Path
    waiting: Path

    def swap(self) -> None:
        """Puts the new copy in the place of the old one."""
        try:
            (self.waiting / MARK).write_text("published by smoke-lineage; replaced as a whole by the next run\n")
            old = self.target.with_name(f".{self.target.name}.{new_run_id()}.old")
            if self.target.exists():
                self.target.rename(old)
            self.waiting.rename(self.target)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise StoreError(
                f"the run is committed, but output '{self.output}' could not be published to '{self.target}': "
                f"{error.strerror}"
            ) from error


@contextmanager
def discarding(publications: Sequence[Publication]) -> Iterator[None]:
    """Removes copies that wait for a commit which will not come."""
    try:
        yield
    except BaseException:
        for publication in publications:
            shutil.rmtree(publication.waiting, ignore_errors=True)
        raise


def publish(publications: Sequence[Publication]) -> None:
    for publication in publications:
        publication.swap()


def prepare_publications(loaded: LoadedWorkflow) -> list[Publication]:
    """The outputs to publish; WorkflowError where a target would overwrite what is not ours."""
    publications: list[Publication] = []
    problems: list[Problem] = []
    for name, output in loaded.spec.outputs.items():
        if isinstance(output, BrokenOutput) or output.path is None:
            continue
        target = (loaded.path.parent / output.path).absolute()
        reason = _refusal(target, loaded)
        if target in (other.target for other in publications):
            reason = f"two outputs are published to '{target}'"
        if reason:
            problems.append(Problem(reason, loaded.marks.at("outputs", name, "path")))
        waiting = target.with_name(f".{target.name}.{new_run_id()}.new")
        publications.append(Publication(name, output.step or name, target, waiting))
    if problems:
        raise WorkflowError(problems)
    return publications


def _refusal(target: Path, loaded: LoadedWorkflow) -> str | None:
    if target.is_file():
        return f"cannot publish to '{target}': a file is there; name a folder"
    for name, source in loaded.spec.sources.items():
        if isinstance(source, BrokenSource) or source.path is None:
            continue
        path = (loaded.path.parent / source.path).absolute()
        if target == path or target in path.parents or path in target.parents:
            return f"cannot publish to '{target}': source '{name}' is read from there"
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).exists():
        return f"cannot publish to '{target}': the folder holds files that smoke-lineage did not write"
    return None
