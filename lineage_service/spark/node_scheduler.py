"""Lowers nodes in the order of their inputs, independent ones concurrently, so that Spark uses all its cores."""

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
    """The relation of each node by id. Analysis errors are collected over all nodes; other errors stop the execution.

    `cancel` ends running jobs if one fails or the user interrupts.
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
