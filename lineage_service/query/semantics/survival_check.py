"""Decides whether polynomials alone determine the effect of removing input rows, from the plans of all runs on the
way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.capture.handles import source_space, step_space
from lineage_service.capture.survival import Survival, survival
from lineage_service.errors import QuestionError
from lineage_service.plan.nodes import Source
from lineage_service.query.lineage_graph import Place

if TYPE_CHECKING:
    from lineage_service.query.semantics.derivations import Derivations


@dataclass
class SurvivalCheck:
    """Follows the plans of runs to the datasets whose rows are variables or removed (`gone`)."""

    derivations: Derivations
    gone: set[Place]
    _known: dict[Place, Survival] = field(default_factory=dict)

    def refuse_unsure(self) -> None:
        """Raises QuestionError if rows may vanish or remain for reasons that their polynomials do not express."""
        unsure = self._survival_at(self.derivations.begin).unsure
        for place in sorted(self.gone):
            if _place_label(place) in unsure:
                name = self.derivations.ask.graph.datasets_at(place)[0].full_name
                raise QuestionError(
                    f"whether rows survive the loss of rows of '{name}' cannot be determined from "
                    f"how they were made: {unsure[_place_label(place)]}",
                    hint="what-if computes it",
                )

    def _survival_at(self, place: Place) -> Survival:
        """The survival of the rows of a dataset."""
        if place not in self._known:
            if place in self.derivations.known_as or place in self.gone:
                self._known[place] = Survival(frozenset([_place_label(place)]))
            elif place.space.is_source:
                same = self.derivations.ask.graph.links(place, "backward")
                self._known[place] = self._survival_through_link(place, same[0].end) if same else Survival()
            else:
                self._follow(place)
        return self._known[place]

    def _survival_through_link(self, source: Place, maker: Place) -> Survival:
        """The survival of rows of another workflow's output, with the column names that the source uses."""
        found = self._survival_at(maker)
        declared = json.loads(self.derivations.ask.graph.datasets_at(source)[0].declared)
        by_old = {old.lower(): new.lower() for old, new in (declared.get("rename") or {}).items()}
        measured = frozenset(by_old.get(name, name) for name in found.measured)
        return Survival(found.inputs, found.appears, found.unsure, measured)

    def _follow(self, place: Place) -> None:
        """Computes the survival of every step of a run up to one of its datasets."""
        ask, run_id = self.derivations.ask, place.run_id
        states: dict[str, Survival] = {}
        for node in ask.committed_run(run_id).plan.nodes():
            here = Place(run_id, step_space(node.id))
            if isinstance(node, Source):
                states[node.id] = self._survival_at(Place(run_id, source_space(node.step)))
            elif here in self.derivations.known_as or here in self.gone:
                states[node.id] = self._survival_at(here)
            else:
                states[node.id] = survival(node, [states[below.id] for below in node.inputs])
        found = states.get(place.space.name)
        if found is None:
            raise QuestionError(f"'{place.space.name}' is no step of run '{run_id}': what its rows survive is unknown")
        self._known[place] = found


def _place_label(place: Place) -> str:
    return f"{place.run_id}/{place.space}"
