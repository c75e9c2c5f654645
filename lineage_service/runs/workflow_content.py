"""The workflow of a run as stored in the catalog: with references to the environment, never with its values."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from lineage_service.errors import RunError, StoreError
from lineage_service.spec.environment import KEY, with_references
from lineage_service.spec.loader import LoadedWorkflow, load_recorded_with_environment, load_recorded_workflow
from lineage_service.store.home_key import HomeKey, existing_key, home_key
from lineage_service.store.layout import HomeLayout


def kept_content(home: HomeLayout, loaded: LoadedWorkflow) -> str:
    """The stored form of a workflow. Values of the environment are represented by digests with the home's key."""
    if loaded.kept is None:
        return loaded.spec.model_dump_json(by_alias=True)
    key = home_key(home)
    digests = {name: _digest(key, name, value) for name, value in sorted(loaded.environment.items())}
    return json.dumps({**with_references(json.loads(loaded.kept.spec.model_dump_json(by_alias=True))), KEY: digests})


def kept_variables(loaded: LoadedWorkflow) -> dict[str, str]:
    """The variables of a run without secret values."""
    if loaded.kept is None:
        return dict(loaded.variables)
    found: dict[str, str] = with_references(dict(loaded.kept.variables))
    return found


def load_run_workflow(home: HomeLayout, content: str | None, run_id: str) -> LoadedWorkflow:
    """The workflow as a run read it. Raises RunError if the environment has changed."""
    body = json.loads(content or "{}")
    digests = body.pop(KEY, None)
    if not digests:
        return load_recorded_workflow(content or "{}", f"run {run_id}")
    values = _same_values(home, digests, run_id)
    return load_recorded_with_environment(body, values, f"run {run_id}")


def refuse_changed_environment(home: HomeLayout, content: str | None, run_id: str) -> None:
    """Raises RunError if a variable of the environment is not what it was when the run read it."""
    digests = json.loads(content or "{}").get(KEY)
    if digests:
        _same_values(home, digests, run_id)


def _same_values(home: HomeLayout, digests: Mapping[str, str], run_id: str) -> dict[str, str]:
    key = existing_key(home)
    if key is None:
        raise StoreError(
            f"the key of the home '{home.path}' is lost: the environment of run '{run_id}' cannot be checked",
            hint="restore 'audit.key' from a backup, or run the workflow again",
        )
    values = {}
    for name, digest in digests.items():
        value = os.environ.get(name)
        if value is None:
            raise RunError(
                f"run '{run_id}' was made with the environment variable '{name}', which is not set",
                hint="set it to what it was then: values of the environment are not kept",
            )
        if _digest(key, name, value) != digest:
            raise RunError(
                f"the environment variable '{name}' is not what it was when run '{run_id}' read it: its steps would "
                "mean something else",
                hint="set it to what it was then, or run the workflow again",
            )
        values[name] = value
    return values


def _digest(key: HomeKey, name: str, value: str) -> str:
    return key.seal(f"environment {len(name)}:{name}:{value}".encode())
