"""Where boxes and edges of a picture go: layers from top to bottom, few crossings, no edge through a box.

An edge over several layers gets a bend in each layer between, which takes its place there like a box. So each edge
runs down through its bends, and from layer to layer in the gap between them, where there are no boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lineage_service.render.pictures.node_placement import place_nodes
from lineage_service.runs.workflow_graph import Picture, PictureEdge

SWEEPS = 12
APART = 28.0  # between boxes of a layer
BEND = 14.0  # room that a bend takes
LEAST_GAP, LARGEST_GAP = 58.0, 130.0  # between layers
LANE_PADDING = 24.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Size:
    width: float
    height: float


@dataclass(frozen=True)
class Rectangle:
    """A rectangle: x and y of its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    def overlaps(self, other: Rectangle) -> bool:
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True)
class Route:
    """An edge's way: straight stretches through layers, joined by curves in the gaps between them."""

    edge: PictureEdge
    stretches: tuple[tuple[Point, Point], ...]

    @property
    def gaps(self) -> tuple[tuple[Point, Point], ...]:
        """The curves' ends."""
        return tuple((above[1], below[0]) for above, below in pairwise(self.stretches))


@dataclass(frozen=True)
class Layout:
    """Frames by box id, routes, and per lane its frame; everything lies between (0, 0) and (width, height)."""

    width: float
    height: float
    frames: Mapping[str, Rectangle]
    routes: tuple[Route, ...]
    lanes: Mapping[str, Rectangle]


@dataclass(frozen=True)
class _Chain:
    """An edge as nodes from the upper box to the lower one, with its bends; turned where it leads upwards."""

    edge: PictureEdge
    nodes: tuple[str, ...]
    turned: bool


def lay_out(picture: Picture, sizes: Mapping[str, Size], lane_widths: Mapping[str, float]) -> Layout:
    """The layout of a picture whose boxes have these sizes; a lane is at least as wide as told."""
    layer_of, turned = _layers(picture)
    chains, lane_of = _chains(picture, layer_of, turned)
    layers = _order_layers(picture, chains, layer_of, lane_of)
    widths = {node: sizes[node].width if node in sizes else BEND for layer in layers for node in layer}
    middles, lanes = _horizontal_places(picture, chains, layers, lane_of, widths, lane_widths)
    tops, heights = _vertical_places(layers, chains, middles, sizes, header=len(picture.lanes) > 1)
    frames = {
        box.id: Rectangle(
            middles[box.id] - sizes[box.id].width / 2, tops[layer_of[box.id]], *_dimensions(sizes[box.id])
        )
        for box in picture.boxes
    }
    bottom = tops[-1] + heights[-1]
    routes = tuple(_routes(chains, layer_of, frames, middles, tops, heights))
    width = max(left + size for left, size in lanes.values())
    height = bottom + (LANE_PADDING if len(picture.lanes) > 1 else 0)
    lane_frames = {lane: Rectangle(left, 0, size, height) for lane, (left, size) in lanes.items()}
    return Layout(width, height, frames, routes, lane_frames)


def _dimensions(size: Size) -> tuple[float, float]:
    return size.width, size.height


def _layers(picture: Picture) -> tuple[dict[str, int], set[PictureEdge]]:
    """Each box below all that lead to it; what nothing leads to stands right above its first reader.

    Links to what was made anew since can go in a circle: those that would close one lead upwards.
    """
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(box.id for box in picture.boxes)
    graph.add_edges_from((edge.start, edge.end) for edge in picture.edges if edge.flow != "link")
    turned: set[PictureEdge] = set()
    for edge in picture.edges:
        if edge.flow == "link":
            if networkx.has_path(graph, edge.end, edge.start):
                turned.add(edge)
            else:
                graph.add_edge(edge.start, edge.end)
    graph.add_edges_from((edge.end, edge.start) for edge in turned)
    layer_of = {node: layer for layer, nodes in enumerate(networkx.topological_generations(graph)) for node in nodes}
    for node in layer_of:
        if not graph.in_degree(node) and graph.out_degree(node):
            layer_of[node] = min(layer_of[reader] for reader in graph.successors(node)) - 1
    return layer_of, turned


def _chains(
    picture: Picture, layer_of: Mapping[str, int], turned: set[PictureEdge]
) -> tuple[list[_Chain], dict[str, str]]:
    lane_of = {box.id: box.lane for box in picture.boxes}
    chains = []
    for number, edge in enumerate(picture.edges):
        upper, lower = (edge.end, edge.start) if edge in turned else (edge.start, edge.end)
        bends = [f"bend {number} {layer}" for layer in range(layer_of[upper] + 1, layer_of[lower])]
        # The way between two lanes is taken at once, in the first gap: then the bends lie in the lane it leads to.
        lane_of.update(dict.fromkeys(bends, lane_of[lower]))
        chains.append(_Chain(edge, (upper, *bends, lower), edge in turned))
    return chains, lane_of


def _order_layers(
    picture: Picture, chains: Sequence[_Chain], layer_of: Mapping[str, int], lane_of: Mapping[str, str]
) -> list[list[str]]:
    """The nodes of each layer from left to right: lane by lane, and within each with few crossings."""
    layers: list[list[str]] = [[] for _ in range(max(layer_of.values()) + 1)]
    for box in picture.boxes:
        layers[layer_of[box.id]].append(box.id)
    for chain in chains:
        for layer, bend in enumerate(chain.nodes[1:-1], start=layer_of[chain.nodes[0]] + 1):
            layers[layer].append(bend)
    rank = {lane: number for number, lane in enumerate(picture.lanes)}
    above, below = _neighbours(chains)
    layers = [sorted(layer, key=lambda node: rank[lane_of[node]]) for layer in layers]
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        layers = [list(layer) for layer in layers]
        fixed: dict[str, float] = {}
        for index in range(len(layers)) if downwards else reversed(range(len(layers))):
            place = {node: float(position) for position, node in enumerate(layers[index])}
            layers[index].sort(key=lambda node: (rank[lane_of[node]], _mean(neighbours[node], fixed, place[node])))
            count = max(len(layers[index]) - 1, 1)
            fixed = {node: position / count * 100 for position, node in enumerate(layers[index])}
        crossings = _crossings(layers, below)
        if crossings < fewest:
            best, fewest = layers, crossings
    return best


def _neighbours(chains: Sequence[_Chain]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for chain in chains:
        for upper, lower in pairwise(chain.nodes):
            above[lower].append(upper)
            below[upper].append(lower)
    return above, below


def _mean(nodes: Sequence[str], places: Mapping[str, float], otherwise: float) -> float:
    known = [places[node] for node in nodes if node in places]
    return sum(known) / len(known) if known else otherwise


def _crossings(layers: Sequence[Sequence[str]], below: Mapping[str, Sequence[str]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        place = {node: position for position, node in enumerate(lower)}
        ends = [sorted(place[node] for node in below.get(each, ()) if node in place) for each in upper]
        seen: list[int] = []
        for group in ends:
            total += sum(1 for end in group for other in seen if other > end)
            seen += group
    return total


def _horizontal_places(
    picture: Picture,
    chains: Sequence[_Chain],
    layers: Sequence[Sequence[str]],
    lane_of: Mapping[str, str],
    widths: Mapping[str, float],
    lane_widths: Mapping[str, float],
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """The middle of each node, and of each lane its left side and width. Lanes are placed one by one, side by side."""
    above, below = _neighbours(chains)
    bends = {bend for chain in chains for bend in chain.nodes[1:-1]}
    middles: dict[str, float] = {}
    lanes: dict[str, tuple[float, float]] = {}
    left = 0.0
    padding = LANE_PADDING if len(picture.lanes) > 1 else 0.0
    for lane in picture.lanes:
        own = [[node for node in layer if lane_of[node] == lane] for layer in layers]
        placed = place_nodes(own, above, below, widths, bends, APART)
        least = min(middle - widths[node] / 2 for node, middle in placed.items())
        most = max(middle + widths[node] / 2 for node, middle in placed.items())
        width = max(most - least + 2 * padding, lane_widths.get(lane, 0.0))
        shift = left + (width - (most - least)) / 2 - least
        middles.update({node: middle + shift for node, middle in placed.items()})
        lanes[lane] = (left, width)
        left += width + (APART if padding else 0.0)
    return middles, lanes


def _vertical_places(
    layers: Sequence[Sequence[str]],
    chains: Sequence[_Chain],
    middles: Mapping[str, float],
    sizes: Mapping[str, Size],
    *,
    header: bool,
) -> tuple[list[float], list[float]]:
    """The upper side and the height of each layer; where edges go far sideways, the gap is larger."""
    layer_of = {node: index for index, layer in enumerate(layers) for node in layer}
    farthest: dict[int, float] = defaultdict(float)
    for chain in chains:
        for upper, lower in pairwise(chain.nodes):
            index = layer_of[upper]
            farthest[index] = max(farthest[index], abs(middles[upper] - middles[lower]))
    heights = [max(sizes[node].height if node in sizes else 0.0 for node in layer) for layer in layers]
    tops = []
    top = 44.0 if header else 0.0
    for index, height in enumerate(heights):
        tops.append(top)
        top += height + min(LEAST_GAP + farthest[index] / 10, LARGEST_GAP)
    return tops, heights


def _routes(
    chains: Sequence[_Chain],
    layer_of: Mapping[str, int],
    frames: Mapping[str, Rectangle],
    middles: Mapping[str, float],
    tops: Sequence[float],
    heights: Sequence[float],
) -> list[Route]:
    ports = _ports(chains, frames, middles)
    routes = []
    for number, chain in enumerate(chains):
        first, last = chain.nodes[0], chain.nodes[-1]
        start, end = ports[number]
        layer = layer_of[first]
        stretches = [((start, frames[first].y + frames[first].height), (start, tops[layer] + heights[layer]))]
        for bend in chain.nodes[1:-1]:
            layer += 1
            stretches.append(((middles[bend], tops[layer]), (middles[bend], tops[layer] + heights[layer])))
        stretches.append(((end, tops[layer + 1]), (end, frames[last].y)))
        if chain.turned:
            stretches = [(below, above) for above, below in reversed(stretches)]
        routes.append(Route(chain.edge, tuple(stretches)))
    return routes


def _ports(
    chains: Sequence[_Chain], frames: Mapping[str, Rectangle], middles: Mapping[str, float]
) -> list[tuple[float, float]]:
    """Where each edge leaves its upper box and enters its lower one: beside each other, in the order they come."""
    starts = _spread_ports([(chain.nodes[0], middles[chain.nodes[1]]) for chain in chains], frames)
    ends = _spread_ports([(chain.nodes[-1], middles[chain.nodes[-2]]) for chain in chains], frames)
    return list(zip(starts, ends, strict=True))


def _spread_ports(wanted: Sequence[tuple[str, float]], frames: Mapping[str, Rectangle]) -> list[float]:
    places = [0.0] * len(wanted)
    by_box: dict[str, list[int]] = defaultdict(list)
    for number, (box, _) in enumerate(wanted):
        by_box[box].append(number)
    for box, numbers in by_box.items():
        frame = frames[box]
        step = frame.width * 0.8 / (len(numbers) + 1)
        first = frame.middle - step * (len(numbers) - 1) / 2
        for position, number in enumerate(sorted(numbers, key=lambda each: wanted[each][1])):
            places[number] = first + position * step
    return places
