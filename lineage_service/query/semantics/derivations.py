"""Computes how rows were derived, as polynomials over rows of the requested datasets, across kept steps and runs.

A row is the product of its handles, a group is the sum of its members, an intersect is the product of the sums of its
sides. Rows of a requested dataset are variables; rows of other sources count as 1. A row that several sources read is
one variable, named after the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role, Space
from lineage_service.errors import QuestionError, StoreError, did_you_mean, join_names
from lineage_service.query.lineage_graph import Place
from lineage_service.query.lineage_walk import walk
from lineage_service.query.semantics.aligned_rows import AlignedRows
from lineage_service.query.semantics.derivation_step import DerivationStep
from lineage_service.query.semantics.polynomial import Polynomial, Polynomials, Row
from lineage_service.store.dataset_names import ALL, DatasetName, find_dataset, without_readers

if TYPE_CHECKING:
    from lineage_service.query.questions import Questions
    from lineage_service.store.shared_rows import SharedRows

MOST_MEMBERS = 200_000  # members read per question


@dataclass
class Derivations:
    """The ways from one dataset to its inputs, and the polynomials of its rows.

    whole: multiplicities matter, so ways that lead to no requested dataset are followed too (`how`, not `why`)
    """

    ask: Questions
    start: DatasetRecord
    to: Sequence[str] | None
    semantics: str
    steps: dict[Place, DerivationStep] = field(default_factory=dict)
    order: list[Place] = field(default_factory=list)
    wanted: dict[Place, str] = field(default_factory=dict)  # requested datasets, with the names of their variables
    # Places whose rows are variables, with the names and rids of these variables.
    known_as: dict[Place, list[tuple[str, SharedRows | None]]] = field(default_factory=dict)
    absent: list[DatasetRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.aligned = AlignedRows(self.ask)
        self.begin = Place(self.start.run_id, self.start.space)
        self._collect_steps()
        self._choose_variables()
        self._match_shared_rows()
        self._refuse_missing()
        self._note_partial_steps()

    # --- collecting the steps ---------------------------------------------------------------------------------

    def _collect_steps(self) -> None:
        """All contributing places, in topological order."""
        done: list[Place] = []
        self.steps[self.begin] = step = self._step(self.begin)
        # Depth first without recursion: a chain of workflows may be longer than Python's stack.
        stack = [(self.begin, iter(step.below(self.begin)))]
        while stack:
            place, pending = stack[-1]
            for below in pending:
                if below not in self.steps:
                    self.steps[below] = step = self._step(below)
                    stack.append((below, iter(step.below(below))))
                    break
            else:
                done.append(place)
                stack.pop()
        self.order = done[::-1]

    def _step(self, place: Place) -> DerivationStep:
        if place.space.is_source:
            links = self.ask.graph.links(place, "backward")
            return DerivationStep(same=links[0].end) if links else DerivationStep()
        tables = self.aligned.tables(place.run_id)
        table = tables.tables.get(Space(place.space))
        if table is None:
            return DerivationStep()
        riding = [each.space for each in table.handles if each.role is Role.OWN and tables.rides(each.space)]
        return DerivationStep(table, Place(place.run_id, riding[0]) if riding and table.space.is_dataset else None)

    def _choose_variables(self) -> None:
        """The datasets whose rows are variables: the named ones, otherwise every source that reads files."""
        if self.to is None or ALL in self.to:
            leaves = [place for place in self.order if place.space.is_source and not self._has_upstream(place)]
            places = sorted(
                (place for place in leaves if place != self.begin), key=lambda each: (each.space, each.run_id)
            )
        else:
            places = [place for name in dict.fromkeys(self.to) if (place := self._find_target(name)) is not None]
        records = {place: self.ask.graph.datasets_at(place)[0] for place in places}
        names = [each.name for each in records.values()]
        full = [each.full_name for each in records.values()]
        for place, each in records.items():
            if names.count(each.name) == 1:
                self.wanted[place] = each.name
            else:
                self.wanted[place] = (
                    each.full_name if full.count(each.full_name) == 1 else self.ask.targets.qualified_name(each)
                )

    def _match_shared_rows(self) -> None:
        """Finds the places that share rows with the requested datasets. A requested dataset whose rows are all named
        after another one is dropped.
        """
        graph, names = self.ask.graph, list(self.wanted.items())
        for place in [*self.wanted, *(each for each in self.order if each not in self.wanted and each != self.begin)]:
            before = names[: list(self.wanted).index(place)] if place in self.wanted else names
            known: list[tuple[str, SharedRows | None]] = []
            for other, name in before:
                shared = graph.shared_rows(place, other)
                if shared is not None:
                    known.append((name, shared))
            if place in self.wanted:
                known.append((self.wanted[place], None))
            if known:
                self.known_as[place] = known
        covered = [
            place for place, known in self.known_as.items() if any(rows is not None and rows.all for _, rows in known)
        ]
        self.wanted = {place: name for place, name in self.wanted.items() if place not in covered}

    def variable(self, place: Place, rid: int) -> Row | None:
        """The variable of a row; None if the row belongs to no requested dataset."""
        for name, shared in self.known_as.get(place, ()):
            there = rid if shared is None else shared.rid(rid)
            if there is not None:
                return Row(name, there)
        return None

    def variables_at(self, place: Place, rows: Collection[Row]) -> dict[int, Row]:
        """The rids of a place whose rows are among these variables, and the variables."""
        found: dict[int, Row] = {}
        for name, shared in self.known_as.get(place, ()):
            for row in rows:
                rid = row.rid if shared is None else shared.inverse.rid(row.rid)
                if row.dataset == name and rid is not None and self.variable(place, rid) == row:
                    found[rid] = row
        return found

    def _has_upstream(self, place: Place) -> bool:
        return self.steps[place].same is not None

    def _find_target(self, name: str) -> Place | None:
        """The place of a requested dataset; None if it influences only by absence."""
        asked = DatasetName.parse(name)
        found = self._matching(asked, self.order)
        targets = self.ask.targets
        meant = [
            each
            for place, each in found.items()
            if place.run_id == self.begin.run_id and each.workflow == self.start.workflow
        ]
        if not meant and found:
            meant = targets.versions_meant(asked, without_readers(list(found.values())), self.order)
        meant = targets.latest_of_same_rows(meant)
        targets.refuse_several(name, meant)
        if meant:
            return Place(meant[0].run_id, meant[0].space)
        absent = self._matching(asked, self.influencing())
        if absent:
            self.absent.append(next(iter(absent.values())))
            return None
        # Raises NotFound if there is no such dataset.
        named = find_dataset(self.ask.reader, name, str(self.ask.home.path))
        elsewhere = targets.read_elsewhere(named, asked, walk(self.ask.graph, self.begin, "backward", pruned=True))
        if elsewhere is not None:
            return Place(elsewhere.run_id, elsewhere.space)
        linked = [each for place in self.order[1:] for each in self.ask.graph.datasets_at(place)]
        raise QuestionError(
            f"'{self.start.full_name}' and '{name}' are not linked in these runs; linked: "
            f"{join_names(list(dict.fromkeys(each.full_name for each in linked)))}",
            hint=did_you_mean(name, [each.name for each in linked]),
        )

    def _matching(self, dataset_name: DatasetName, places: Sequence[Place]) -> dict[Place, DatasetRecord]:
        return {
            place: each
            for place in places
            if place != self.begin
            for each in self.ask.graph.datasets_at(place)
            if dataset_name.matches(each)
        }

    def influencing(self) -> list[Place]:
        """Places reached only through an absence or through rows that a window read."""
        seen: dict[Place, None] = {}
        pending = list(self.order)
        while pending:
            place = pending.pop()
            if place.space.is_source:
                below = [way.end for way in self.ask.graph.links(place, "backward")]
            else:
                table = self.aligned.tables(place.run_id).tables.get(Space(place.space))
                spaces = [] if table is None else [each.space for each in table.handles]
                spaces += [table.everything] if table is not None and table.everything is not None else []
                below = [Place(place.run_id, space) for space in spaces]
            for each in below:
                if each not in seen and each not in self.steps:
                    seen[each] = None
                    pending.append(each)
        return list(seen)

    # --- refusals and notes -----------------------------------------------------------------------------------

    def _places_leading_to_targets(self) -> set[Place]:
        """Places from which a requested dataset is reached."""
        found = set(self.known_as)
        for place in reversed(self.order):
            if any(below in found for below in self.steps[place].below(place)):
                found.add(place)
        return found

    def places_read(self) -> list[Place]:
        """The places that are read, in order. Places behind a variable are not read."""
        leading, reached = self._places_leading_to_targets(), {self.begin}
        found = []
        for place in self.order:
            if place not in reached or place in self.known_as or (self.semantics == "why" and place not in leading):
                continue
            found.append(place)
            reached.update(self.steps[place].below(place))
        return found

    def _refuse_missing(self) -> None:
        followed, leading = self.places_read(), self._places_leading_to_targets()
        carried = {self.begin}
        for place in followed:
            if self.steps[place].table is not None:
                carried.update(self.steps[place].below(place))
        for place in [*followed, *(each for each in self.known_as if each in self.steps)]:
            if place not in carried and place not in followed:
                continue  # rows of another run, identified by the shared rows
            if place.space.is_source and place not in leading:
                continue
            tables, space = self.aligned.tables(place.run_id), Space(place.space)
            if tables.asked is not None and (space not in tables.asked or self._lacks_intersect_side(place)):
                raise self._pruned_error(place)
            if space in tables.missing and place in followed:
                step = space.step_name
                raise QuestionError(
                    f"what belongs together at step '{step}' is not kept in run '{place.run_id}': "
                    f"{tables.missing[space]}",
                    hint=f"add this to `lineage: workload:` and run again:  {self._workload_line()}",
                )

    def _lacks_intersect_side(self, place: Place) -> bool:
        """Whether a side of an intersect stores no lineage because no declared question needs it."""
        tables, table = self.aligned.tables(place.run_id), self.steps[place].table
        if table is None or table.left is None or tables.asked is None:
            return False
        return any(handle.space not in tables.asked for handle in self.steps[place].contributing)

    def _pruned_error(self, place: Place) -> QuestionError:
        named = [each.full_name for each in self.ask.graph.datasets_at(place)] or [place.space.name]
        declared = [each.name for each in self.ask.reader.prepared_questions(place.run_id)]
        return QuestionError(
            f"which rows of '{named[0]}' belong together was pruned in run '{place.run_id}': its workload declares "
            f"other questions ({join_names(declared)})",
            hint=f"add this to `lineage: workload:` and run again:  {self._workload_line()}",
        )

    def _workload_line(self) -> str:
        names = [each.name for place in self.wanted for each in self.ask.graph.datasets_at(place)[:1]]
        return (
            f"- {{name: {self.semantics}_{self.start.name}, backward: {self.start.name}, "
            f"to: [{', '.join(names)}], semantics: {self.semantics}}}"
        )

    def _note_partial_steps(self) -> None:
        """Adds notes about steps for which these semantics are only partly defined."""
        self.notes += self.ask.cuts.notes(self.order)
        peers: dict[str, None] = {}
        absences: dict[str, None] = {}
        for place in self.places_read():
            table = self.steps[place].table
            for handle in table.handles if table is not None else ():
                step = handle.space.step_name
                if handle.role is Role.PEER:
                    peers[step] = None
                elif handle.role is Role.ABSENCE:
                    absences[step] = None
        for step in absences:
            self.notes.append(
                f"step '{step}' keeps rows that have no match: only its left side is included; its right side "
                "contributes no rows and does not occur in witnesses and polynomials"
            )
        for step in peers:
            self.notes.append(
                f"step '{step}' is a window: only the row itself is included; the other rows that it read are not "
                "part of its derivation"
            )

    # --- polynomials ------------------------------------------------------------------------------------------

    def polynomials(self, rids: Sequence[int]) -> dict[int, Polynomial]:
        """The polynomials of these start rows."""
        make = Polynomials()
        followed = self.places_read()
        pending: dict[Place, dict[int, None]] = {self.begin: dict.fromkeys(rids)}
        found: dict[Place, list[tuple[int, ...]]] = {}
        left = MOST_MEMBERS
        for place in followed:
            ids = list(pending.get(place, ()))
            step = self.steps[place]
            if step.same is not None:
                pending.setdefault(step.same, {}).update(dict.fromkeys(ids))
                continue
            if step.table is None:
                continue
            rows = self.aligned.rows(place, ids, left + 1)
            left -= len(rows)
            if left < 0:
                raise self._too_many(len(rids))
            found[place] = rows
            for number, handle in enumerate(step.table.handles, start=1):
                if handle.role is Role.OWN:
                    ids_below = pending.setdefault(Place(place.run_id, handle.space), {})
                    ids_below.update((row[number], None) for row in rows if row[number] is not None)
        values: dict[Place, Callable[[int], Polynomial]] = {}
        for place in self.known_as:
            values[place] = self._variables(make, place)
        for place in reversed(followed):
            values[place] = self._values(place, found.get(place, []), list(pending.get(place, ())), values, make)
        return {rid: values[self.begin](rid) for rid in rids}

    def _values(
        self,
        place: Place,
        rows: list[tuple[int, ...]],
        ids: list[int],
        values: dict[Place, Callable[[int], Polynomial]],
        make: Polynomials,
    ) -> Callable[[int], Polynomial]:
        step, one = self.steps[place], _ones(make)
        if step.same is not None:
            return values.get(step.same, one)
        if step.table is None:
            return one  # rows of a source that was not requested
        table = step.table
        used = [
            (number, values.get(Place(place.run_id, handle.space), one))
            for number, handle in enumerate(table.handles, start=1)
            if handle.role is Role.OWN
        ]
        sides: dict[int, tuple[list[Polynomial], list[Polynomial]]] = {each: ([], []) for each in ids}
        for row in rows:
            there = [(number, value(row[number])) for number, value in used if row[number] is not None]
            is_right = table.left is not None and all(number > table.left for number, _ in there)
            sides[row[0]][is_right].append(make.product(value for _, value in there))
        if table.space.is_dataset:
            if any(len(terms) != 1 for terms, _ in sides.values()):
                raise StoreError(f"the lineage columns of '{table.space}' are missing in run '{place.run_id}'")
            single = {each: terms[0] for each, (terms, _) in sides.items()}
            return single.__getitem__
        summed = {}
        for each, (left, right) in sides.items():
            if not left and not table.always:
                raise StoreError(f"the members of a group of '{table.space}' are gone in run '{place.run_id}'")
            total = make.sum(left, always=table.always)
            summed[each] = total if table.left is None else make.product([total, make.sum(right)])
        return summed.__getitem__

    def _variables(self, make: Polynomials, place: Place) -> Callable[[int], Polynomial]:
        def value(rid: int) -> Polynomial:
            row = self.variable(place, rid)
            return make.number(1) if row is None else make.row(row.dataset, row.rid)

        return value

    def _too_many(self, rows: int) -> QuestionError:
        return QuestionError(
            f"more than {MOST_MEMBERS:,} rows are behind the {rows:,} asked for: too many to find out which belong "
            "together",
            hint="start from fewer rows, or ask with semantics which",
        )


def _ones(make: Polynomials) -> Callable[[int], Polynomial]:
    return lambda _: make.number(1)
