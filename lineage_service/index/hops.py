"""Hops: finished lineage between two neighbouring spaces of a run, each kept in one form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Role, Space
from lineage_service.capture.workload import Direction


@dataclass(frozen=True)
class Hop:
    """Finished lineage between two spaces, kept in the form that `form` names.

    `body` is what the forms without files need to know; `only` is the one direction that is kept.
    """

    source: Space
    target: Space
    role: Role
    form: HopForm
    rows: int = 0
    bytes: int = 0
    backward: Path | None = None
    forward: Path | None = None
    body: Mapping[str, Any] | None = None
    only: Direction | None = None

    @property
    def is_on_demand(self) -> bool:
        """Whether its pairs are found only when they are asked for."""
        return self.form is HopForm.LAZY or (self.form is HopForm.KEYED and self.backward is None)

    @property
    def body_json(self) -> str | None:
        body = {**(self.body or {}), **({"only": self.only} if self.only else {})}
        return json.dumps(body) if body else None


def hops_between(hops: Sequence[Hop], start: Space, target: Space) -> list[Hop]:
    """The hops on ways from one space to another, absence left out: what is kept of the lineage between them."""
    ahead = _closure(hops, start, lambda hop: (hop.source, hop.target))
    behind = _closure(hops, target, lambda hop: (hop.target, hop.source))
    return [hop for hop in hops if hop.role is not Role.ABSENCE and hop.source in ahead and hop.target in behind]


def _closure(hops: Sequence[Hop], start: Space, ends: Callable[[Hop], tuple[Space, Space]]) -> set[Space]:
    found, grew = {start}, True
    while grew:
        new = {ends(hop)[1] for hop in hops if hop.role is not Role.ABSENCE and ends(hop)[0] in found} - found
        found |= new
        grew = bool(new)
    return found
