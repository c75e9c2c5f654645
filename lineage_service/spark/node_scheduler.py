"""Nodes in the order of their inputs, independent ones side by side: Spark fills its cores with several jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from lineage_service.capture.instrument import InstrumentedNode
from lineage_service.errors import Problem, WorkflowError
from lineage_service.spark.relation import Relation

SIDE_BY_SIDE = 4


def schedule_nodes(
    nodes: Sequence[InstrumentedNode],
    relation_of: Callable[[InstrumentedNode, list[Relation]], Relation],
    cancel: Callable[[], None],
) -> dict[str, Relation]:
    """Each node's relation by its id. What the analyser refuses is collected over all nodes; other errors stop.

    `cancel` ends the jobs that are still running when one fails, or when the user interrupts.
    """
    done: dict[str, Relation] = {}
    waiting, there = list(nodes), {each.node.id for each in nodes}
    running: dict[Future[Relation], InstrumentedNode] = {}
    problems: list[tuple[int, Problem]] = []
    rank = {each.node.id: index for index, each in enumerate(nodes)}
    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="smoke") as pool:
        try:
            while True:
                ready = [
                    each for each in waiting if all(below.id in done for below in each.node.inputs if below.id in there)
                ]
                for each in ready:
                    waiting.remove(each)
                    running[
                        pool.submit(
                            relation_of, each, [done[below.id] for below in each.node.inputs if below.id in there]
                        )
                    ] = each
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    each = running.pop(future)
                    try:
                        done[each.node.id] = future.result()
                    except WorkflowError as error:
                        problems += [(rank[each.node.id], problem) for problem in error.problems]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            cancel()
            raise
    if problems:
        raise WorkflowError([problem for _, problem in sorted(problems, key=lambda pair: pair[0])])
    return done
