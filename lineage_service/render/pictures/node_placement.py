"""Nodes of ordered layers side by side: each as near to its neighbours above and below as the others leave room."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from itertools import pairwise

SWEEPS = 40
STRAIGHT = {
    0: 1.0,
    1: 2.0,
    2: 8.0,
}  # how much a neighbour counts, by how many of the two are bends: long edges go straight


def place_nodes(
    layers: Sequence[Sequence[str]],
    above: Mapping[str, Sequence[str]],
    below: Mapping[str, Sequence[str]],
    widths: Mapping[str, float],
    bends: Container[str],
    apart: float,
) -> dict[str, float]:
    """The middle of each node; the order within a layer stays, and two nodes are `apart` at least."""
    middles: dict[str, float] = {}
    for layer in layers:
        right = 0.0
        for node in layer:
            middles[node] = right + widths[node] / 2
            right += widths[node] + apart
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        is_final_sweep = sweep >= SWEEPS // 2
        for layer in layers if downwards else reversed(layers):
            wanted, weights = [], []
            for node in layer:
                beside = (*above.get(node, ()), *below.get(node, ()))
                neighbours = beside if is_final_sweep else (above if downwards else below).get(node, ()) or beside
                known = [(middles[each], STRAIGHT[(node in bends) + (each in bends)]) for each in neighbours
                         if each in middles]  # fmt: skip
                weight = sum(each for _, each in known)
                wanted.append(sum(middle * each for middle, each in known) / weight if known else middles[node])
                weights.append(weight or 1.0)
            for node, middle in zip(layer, _nearest_places(layer, wanted, weights, widths, apart), strict=True):
                middles[node] = middle
    return middles


def _nearest_places(
    layer: Sequence[str], wanted: Sequence[float], weights: Sequence[float], widths: Mapping[str, float], apart: float
) -> list[float]:
    """The places nearest to the wanted ones (weighted least squares) that keep order and distance.

    Less the room that those on the left need, places must not fall; pooling neighbours that do gives the best such
    row (isotonic regression).
    """
    room = [0.0]
    for left, right in pairwise(layer):
        room.append(room[-1] + (widths[left] + widths[right]) / 2 + apart)
    pools: list[tuple[float, float, int]] = []  # mean, weight, and how many share it
    for want, own, used in zip(wanted, weights, room, strict=False):
        mean, weight, count = want - used, own, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + used for mean, used in zip(means, room, strict=False)]
