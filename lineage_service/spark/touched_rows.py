"""Finds the rows of a step that a change of its inputs may touch: possibly too many, never too few. One function per
operator.

Forward lineage does not contain them all: a row may appear because its partner was removed, or a group because it
shrank. So, from the sources up, each operator determines which of its rows, before or after the change, may differ or
derive from other rows. They are identified by values of some columns, or by rids of the dataset rows that they come
from (a *seed*). A breaker turns touched rows into touched keys, whose groups are recomputed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import assert_never

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space
from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.capture.stability import WRITTEN, Stability, stability
from lineage_service.plan.conjuncts import plain_name
from lineage_service.plan.expressions import ColumnRef, Expression, quote_identifier, with_stars_expanded
from lineage_service.plan.identity_columns import column_names_above
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.relation import Relation
from lineage_service.spark.touches import AllRowsTouched, Touch, is_row_wise, restrict_rows


@dataclass
class TouchedRowFinder:
    """The touched rows of a plan's nodes.

    nodes: the instrumented nodes
    leaves: changed rows of the datasets that are read, before and after, by node, each with its rid as the only handle;
    None if nothing changed
    either: returns a node's rows before and after, with handles
    lost: rids of removed rows of leaves that can no longer be read
    top: the dataset that is recomputed
    old_rows: its rows before, and the rids of those that derive from removed rows of a leaf
    """

    nodes: Mapping[str, InstrumentedNode]
    leaves: Mapping[str, Relation | None]
    either: Callable[[Node], Relation]
    names: CaptureColumnNames
    lost: Mapping[str, DataFrame]
    top: Node
    old_rows: Callable[[Space], tuple[Relation, DataFrame | None]]
    _touches: dict[str, list[Touch]] = field(default_factory=dict)
    _stable: dict[str, Stability] = field(default_factory=dict)

    def touches_of(self, node: Node) -> list[Touch]:
        """The touched rows of a node; none if nothing changed. Raises AllRowsTouched if they cannot be identified."""
        if node.id not in self._touches:
            self._touches[node.id] = (
                self._touches_of_leaf(node) if node.id in self.leaves else self._touches_of_operator(node)
            )
        return self._touches[node.id]

    def is_touched(self, node: Node) -> bool:
        """Whether anything below a node changed."""
        if node.id in self.leaves:
            return self.leaves[node.id] is not None
        return any(self.is_touched(below) for below in node.inputs)

    def _touches_of_leaf(self, node: Node) -> list[Touch]:
        relation = self.leaves[node.id]
        if relation is None:
            return []
        (handle,) = self.nodes[node.id].handles
        frame = relation.frame.withColumnRenamed(self.names.handle(0), self.names.row)
        touches = [Touch(frame, relation.columns, handle.space)]
        if node.id in self.lost:
            rids = self.lost[node.id].withColumnRenamed(self.names.handle(0), self.names.row)
            touches.append(Touch(rids, (), handle.space, lost=True))
        return touches

    def _touches_of_operator(self, node: Node) -> list[Touch]:
        if not self.is_touched(node):
            return []
        if not node.repeatable and not isinstance(node, Limit):
            reason = f"step '{node.step}' may give other rows each time it is computed"
            return self._all_if_any([each for below in node.inputs for each in self.touches_of(below)], reason)
        match node:
            case Source():
                raise AssertionError(f"'{node.id}' is read and no leaf")
            case Filter():
                return [self._filter_touch(each, node.where) for each in self.touches_of(node.input)]
            case Sort():
                return self.touches_of(node.input)
            case Limit():
                reason = f"step '{node.step}' is a limit: any change may bring in other rows"
                return self._all_if_any(self.touches_of(node.input), reason)
            case Project():
                return [self._project_touch(each, node.columns, ()) for each in self.touches_of(node.input)]
            case WithColumns():
                return [
                    self._project_touch(each, node.columns, node.schema.names) for each in self.touches_of(node.input)
                ]
            case Explode():
                return [self._explode_touch(each, node) for each in self.touches_of(node.input)]
            case Union():
                return [self._rename_branch(each, node) for below in node.inputs for each in self.touches_of(below)]
            case Aggregate():
                if not node.keys:
                    return self._all_if_any(self.touches_of(node.input), f"step '{node.step}' is one row over all rows")
                return [self._touched_groups(each, node, node.keys) for each in self.touches_of(node.input)]
            case Distinct():
                return [self._touched_key_values(each, node, node.schema.names) for each in self.touches_of(node.input)]
            case Window():
                if not node.partition_by:
                    return self._all_if_any(
                        self.touches_of(node.input), f"step '{node.step}' has one partition of all rows"
                    )
                return [self._touched_key_values(each, node, node.partition_by) for each in self.touches_of(node.input)]
            case Intersect() | Difference():
                sides = [(below, each) for below in node.inputs for each in self.touches_of(below)]
                return [self._touched_key_values(each, node, node.schema.names, below) for below, each in sides]
            case Join():
                return self._join_touches(node)
            case _:
                assert_never(node)

    def _all_if_any(self, touches: Sequence[Touch], reason: str) -> list[Touch]:
        """No touches if there are none; otherwise raises AllRowsTouched."""
        if any(not touch.frame.isEmpty() for touch in touches):
            raise AllRowsTouched(reason)
        return []

    # --- row by row -------------------------------------------------------------------------------------------

    def _filter_touch(self, touch: Touch, where: Expression) -> Touch:
        """Applies the predicate if its columns are known; otherwise all rows stay touched."""
        if not touch.knows(_columns_read(where, touch.columns)) or not where.repeatable:
            return touch
        return replace(touch, frame=touch.frame.filter(_expr(where, touch.columns)))

    def _project_touch(self, touch: Touch, columns: Sequence[NamedExpression], kept: Sequence[str]) -> Touch:
        """The columns that can be computed from known ones. `kept` are those that stay unless replaced."""
        new = {
            named.name: _expr(named.expression, touch.columns)
            for named in columns
            if touch.knows(_columns_read(named.expression, touch.columns)) and named.expression.repeatable
        }
        replaced = {named.name.lower() for named in columns}
        stay = [name for name in touch.columns if name.lower() in _lower(kept) and name.lower() not in replaced]
        if any(named.expression.is_generator and named.name not in new for named in columns):
            new = {}
        values = [*(col(name) for name in stay), *(value.alias(name) for name, value in new.items())]
        return replace(touch, frame=touch.frame.select(*values, *self._seed(touch)), columns=(*stay, *new))

    def _explode_touch(self, touch: Touch, node: Explode) -> Touch:
        """The touch without the column of elements, whose values are not determined."""
        stay = tuple(name for name in touch.columns if name.lower() != node.alias.lower())
        return replace(touch, frame=touch.frame.select(*map(col, stay), *self._seed(touch)), columns=stay)

    def _rename_branch(self, touch: Touch, node: Node) -> Touch:
        """A branch's touch under the column names of the first branch."""
        own = {name.lower(): name for name in touch.columns}
        known = tuple(name for name in node.schema.names if name.lower() in own)
        values = [col(own[name.lower()]).alias(name) for name in known]
        return replace(touch, frame=touch.frame.select(*values, *self._seed(touch)), columns=known)

    def _seed(self, touch: Touch) -> list[Column]:
        return [] if touch.seed is None else [col(self.names.row)]

    # --- breakers ---------------------------------------------------------------------------------------------

    def _touched_groups(self, touch: Touch, node: Aggregate, keys: Sequence[NamedExpression]) -> Touch:
        """Touched groups, by the values of all their keys."""
        if touch.lost:
            return self._groups_of_unreadable_rows(touch, node, {key.name: key.expression for key in keys})
        wanted = {name for key in keys for name in _columns_read(key.expression, node.input.schema.names)}
        touch = self._look_up_columns(touch, node.input, wanted)
        values = [_expr(key.expression, touch.columns).alias(key.name) for key in keys]
        return Touch(touch.frame.select(*values).distinct(), tuple(key.name for key in keys))

    def _touched_key_values(self, touch: Touch, node: Node, names: Sequence[str], below: Node | None = None) -> Touch:
        below = below or node.inputs[0]
        if touch.lost:
            return self._groups_of_unreadable_rows(
                touch, node, {name: Expression(quote_identifier(name)) for name in names}
            )
        touch = self._rename_branch(self._look_up_columns(touch, below, _lower(names)), node)
        chosen = tuple(name for name in touch.columns if name.lower() in _lower(names))
        return Touch(touch.frame.select(*map(col, chosen)).distinct(), chosen)

    def _groups_of_unreadable_rows(self, touch: Touch, node: Node, keys: Mapping[str, Expression]) -> Touch:
        """The groups of removed rows that can no longer be read.

        A removed row removes only what it was part of, because otherwise this touch would not have come so far. A group
        that the dataset contained is found by its lineage. A group that exists now and was not contained before may be
        contained from now on.
        """
        unreadable = _unreadable(touch, node)
        shown = column_names_above(self.top, node, tuple(keys))
        hides = any(isinstance(each, Filter) for each in _nodes_above_breaker(self.top, node))
        if shown is None or not isinstance(node, Aggregate | Distinct | Window) or touch.seed is None:
            raise unreadable
        if hides and isinstance(node, Window):
            raise unreadable  # a row that was not shown may have shifted another of its partition
        then, rids = self.old_rows(touch.seed)
        handle = self.names.handle(0)
        old = then.frame.select(col(handle), *[col(name).alias(key) for name, key in zip(shown, keys, strict=True)])
        shown_rows = old.filter("false") if rids is None else old.join(F.broadcast(rids), handle, "left_semi")
        found = shown_rows.select(*map(col, keys))
        if hides:
            found = found.union(self._hidden_groups(node, keys, old))
        return Touch(found.distinct(), tuple(keys))

    def _hidden_groups(self, node: Node, keys: Mapping[str, Expression], old: DataFrame) -> DataFrame:
        """The keys of groups that exist now and were not in the dataset before."""
        (below,) = node.inputs
        stable = self._stability(below)
        read = {name for expression in keys.values() for name in _columns_read(expression, below.schema.names)}
        if stable.reason is not None or read & stable.shaky:
            raise AllRowsTouched(f"groups of step '{node.step}' that were not in the dataset cannot be determined")
        rows = self.either(below)
        now = rows.frame.select(*[_expr(each, rows.columns).alias(name) for name, each in keys.items()]).distinct()
        then = old.select(*[col(name).alias(f"{self.names.prefix}then{index}") for index, name in enumerate(keys)])
        same = [col(name).eqNullSafe(col(f"{self.names.prefix}then{index}")) for index, name in enumerate(keys)]
        return now.join(then.distinct(), reduce(and_, same), "left_anti")

    def _look_up_columns(self, touch: Touch, node: Node, wanted: set[str]) -> Touch:
        """The touch with these columns known. They are looked up among the node's rows, before and after."""
        if touch.lost:
            raise _unreadable(touch, node)
        if touch.knows(wanted):
            return touch
        stable = self._stability(node)
        if stable.reason is not None:
            raise AllRowsTouched(f"{stable.reason}, and step '{node.step}' has to be searched for touched rows")
        shaky = wanted & stable.shaky
        if shaky:
            raise AllRowsTouched(f"a key above step '{node.step}' reads '{min(shaky)}', whose last bits may differ")
        rows = self.either(node)
        found = restrict_rows(rows, self.nodes[node.id].handles, [touch], self.names)
        # What may differ in its last bits from what was written tells nothing.
        steady = tuple(name for name in rows.columns if name.lower() not in stable.shaky)
        return Touch(found.select(*map(col, steady)), steady)

    def _stability(self, node: Node) -> Stability:
        if node.id not in self._stable:
            below = [self._stability(each) for each in node.inputs]
            self._stable[node.id] = WRITTEN if node.id in self.leaves else stability(node, below)
        return self._stable[node.id]

    # --- joins ------------------------------------------------------------------------------------------------

    def _join_touches(self, node: Join) -> list[Touch]:
        """Touched rows touch the rows that they are joined with, or by whose match those appear or disappear."""
        lefts, rights = self.touches_of(node.left), self.touches_of(node.right)
        found: list[Touch] = []
        if node.how in ("inner", "cross"):
            return [self._touch_of_join_side(each, node) for each in (*lefts, *rights)]
        if node.how in ("left", "full", "semi", "anti"):
            partners = [self._partners(node, each, of_left=True) for each in rights]
            found += [self._touch_of_join_side(each, node, alone=True) for each in (*lefts, *partners)]
        if node.how in ("right", "full"):
            partners = [self._partners(node, each, of_left=False) for each in lefts]
            found += [self._touch_of_join_side(each, node, alone=True) for each in (*rights, *partners)]
        return found

    def _touch_of_join_side(self, touch: Touch, node: Join, *, alone: bool = False) -> Touch:
        """One side's touched rows as rows of the join. If rows of a side may appear alone (full or right join), a
        `using` column may have the other side's value; a value that both sides have can be taken from either.
        """
        shown = _lower(node.schema.names)
        hidden = _lower(node.using) if alone and node.how in ("right", "full") else set()
        hidden |= {name.lower() for name in node.using if not _has_same_type(node, name, name)}
        stay = tuple(name for name in touch.columns if name.lower() in shown - hidden)
        known = {name: col(name) for name in stay}
        if node.how == "inner" and not node.using:
            known |= {
                other: col(own) for own, other in self._equal_columns(touch, node) if other.lower() not in _lower(stay)
            }
        values = [value.alias(name) for name, value in known.items()]
        return replace(touch, frame=touch.frame.select(*values, *self._seed(touch)), columns=tuple(known))

    def _equal_columns(self, touch: Touch, node: Join) -> list[tuple[str, str]]:
        """Columns of the touched side, each with the column of the other side that must be equal."""
        if node.equi_condition is None:
            return []
        shown = {name.lower(): name for name in node.schema.names}
        own = {name.lower(): name for name in touch.columns}
        pairs = []
        for texts in node.equi_condition.keys:
            names = [plain_name(text) for text in texts]
            for one, other in ((0, 1), (1, 0)):
                mine, its = names[one], names[other]
                if not mine or not its or not _has_same_type(node, names[0] or "", names[1] or ""):
                    continue
                if mine.lower() in own and its.lower() in shown and mine.lower() != its.lower():
                    pairs.append((own[mine.lower()], shown[its.lower()]))
        return pairs

    def _partners(self, node: Join, touch: Touch, *, of_left: bool) -> Touch:
        """The rows of one side, before and after, that match a touched row of the other."""
        if touch.lost:
            raise _unreadable(touch, node)
        side, other = (node.left, node.right) if of_left else (node.right, node.left)
        stable = self._stability(node)
        if stable.reason is not None:
            raise AllRowsTouched(f"{stable.reason}, and step '{node.step}' has to look for partners of touched rows")
        theirs = "right" if of_left else "left"
        wanted = _lower(node.using)
        if node.on is not None:
            wanted = {_column_of_reference(ref) for ref in node.on.columns if node.side_of(ref) == theirs}
        touch = self._look_up_columns(touch, other, wanted)
        rows, mine = self.either(side), "left" if of_left else "right"
        looked = touch.frame.select(*map(col, touch.columns)).distinct().alias(theirs)
        condition = F.lit(True)
        if node.on is not None:
            condition = F.expr(node.on.text)
        elif node.using:
            condition = reduce(and_, (col(name, mine) == col(name, theirs) for name in node.using))
        found = rows.frame.alias(mine).join(F.broadcast(looked), condition, "left_semi")
        steady = tuple(name for name in rows.columns if name.lower() not in stable.shaky)
        columns = [col(name) for name in steady]
        handles = self.nodes[side.id].handles
        if not is_row_wise(handles) or not self._has_first_handle(side):
            return Touch(found.select(*columns), steady)
        return Touch(found.select(*columns, col(self.names.handle(0)).alias(self.names.row)), steady, handles[0].space)

    def _has_first_handle(self, node: Node) -> bool:
        """Whether every row of a node has an id in its first handle. Rows of a union or an outer join may not."""
        if node.id in self.leaves:
            return True
        match node:
            case Filter() | Project() | WithColumns() | Sort() | Explode():
                return self._has_first_handle(node.input)
            case Join(how="inner" | "cross" | "left"):
                return self._has_first_handle(node.left)
            case (
                Join() | Source() | Aggregate() | Distinct() | Union() | Intersect() | Difference() | Window() | Limit()
            ):
                return False
            case _:
                assert_never(node)


def _unreadable(touch: Touch, node: Node) -> AllRowsTouched:
    return AllRowsTouched(f"removed rows of '{touch.seed.name if touch.seed else node.step}' can no longer be read")


def _nodes_above_breaker(node: Node, breaker: Node) -> list[Node]:
    """The nodes from `node` down to a breaker, as long as each has one input."""
    found = []
    while node.id != breaker.id and len(node.inputs) == 1:
        found.append(node)
        (node,) = node.inputs
    return found


def _has_same_type(node: Join, left: str, right: str) -> bool:
    """Whether two columns that a join compares certainly have the same type. Then equal values are identical."""
    kinds = [schema.find(name) for schema, name in ((node.left.schema, left), (node.right.schema, right))]
    return all(kind is not None and kind.type is not None for kind in kinds) and len({k.type for k in kinds if k}) == 1


def _column_of_reference(ref: ColumnRef) -> str:
    """The column that a name in `on` refers to, without its side."""
    parts = ref.parts
    return (parts[1] if len(parts) > 1 and parts[0] in ("left", "right") else parts[0]).lower()


def _lower(names: Sequence[str]) -> set[str]:
    return {name.lower() for name in names}


def _columns_read(expression: Expression, columns: Sequence[str]) -> set[str]:
    """The columns that an expression reads, in lower case; all columns for a star."""
    if with_stars_expanded(expression, ("all",)) != expression.text:
        return {*_lower(columns), "*"}  # what a star stands for is only known where all columns are
    return {ref.parts[0].lower() for ref in expression.columns}


def _expr(expression: Expression, columns: Sequence[str]) -> Column:
    return F.expr(with_stars_expanded(expression, tuple(columns)))
