"""How the ids of one place are derived: the rows of a table, or the same ids of another place."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_service.capture.handles import Handle, Role, Table
from lineage_service.query.lineage_graph import Place


@dataclass(frozen=True)
class DerivationStep:
    """The derivation of the ids of a place: rows of a table, the same ids of another place (`same`), or none."""

    table: Table | None = None
    same: Place | None = None

    def below(self, place: Place) -> list[Place]:
        """The contributing places."""
        if self.same is not None:
            return [self.same]
        return [Place(place.run_id, each.space) for each in self.contributing]

    @property
    def contributing(self) -> list[Handle]:
        return [each for each in self.table.handles if each.role is Role.OWN] if self.table is not None else []
