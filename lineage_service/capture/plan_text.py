"""The instrumented plan as text, one block per node. Golden files contain it."""

from __future__ import annotations

from lineage_service.capture.handles import Table
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan


def format_plan(plan: InstrumentedPlan) -> str:
    return "\n".join(_lines(each) for each in plan.nodes)


def _lines(each: InstrumentedNode) -> str:
    node = each.node
    kind = type(node).__name__.lower()
    reads = ", ".join(below.id for below in node.inputs)
    lines = [f"{node.id} = {kind}({reads})"]
    lines += [f"  carries  {', '.join(str(handle) for handle in each.carried)}"] if each.carried else []
    lines += [f"  leaves   {_table(table)}" for table in each.tables]
    lines += [f"  captured by {each.choice.strategy}: {each.choice.reason}"] if each.choice else []
    lines += [f"  written once: {each.materialised.reason}"] if each.materialised else []
    return "\n".join(lines)


def _table(table: Table) -> str:
    if table.everything:
        return f"{table.space} -> all of {table.everything}"
    return f"{table.space} -> {', '.join(str(handle) for handle in table.handles)}"
