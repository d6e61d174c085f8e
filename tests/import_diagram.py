"""Draws the folders of the project and their imports as docs/architecture.svg: `python -m tests.import_diagram`.

Arrows within a package are the imports that no longer path implies. The packages that a folder imports are named
below it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from xml.sax.saxutils import escape

from tests.import_graph import PACKAGES, PROJECT, folder_imports

DIAGRAM = PROJECT / "docs" / "architecture.svg"
Graph = dict[str, set[str]]

NODE_WIDTH, NODE_HEIGHT = 168, 44
COLUMN, ROW = 182, 80
MARGIN, TITLE = 16, 34
COLOURS = {
    "orchestrator": "#e8eef9",
    "reports": "#f3ecf8",
    "captures": "#e9f5ec",
    "agents": "#fdf3e3",
    "emulator": "#fbebea",
}
LONG_LIST = 28
"""Characters of a list of packages above which its type is smaller."""
STACKS = (("orchestrator",), ("reports", "emulator"), ("captures",))
"""Packages drawn side by side, each stack from the top."""
BELOW = ("agents",)
SWEEPS = 12
"""Passes that place the nodes of each row near their neighbours in other rows."""


@dataclass(frozen=True)
class Drawing:
    """Part of a picture: its size in pixels and its SVG elements."""

    width: float
    height: float
    elements: list[str]


def reachable(graph: Graph, start: str) -> set[str]:
    """Every node on a path from `start`."""
    seen: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += graph.get(node, ())
    return seen


def reduced(graph: Graph) -> Graph:
    """The graph without the edges that a longer path implies."""
    return {
        node: {target for target in targets if not any(target in reachable(graph, via) for via in targets - {target})}
        for node, targets in graph.items()
    }


def heights(graph: Graph) -> dict[str, int]:
    """The row of each node above the bottom: one more than the highest node that it imports."""
    rows: dict[str, int] = {}

    def height(node: str) -> int:
        if node not in rows:
            rows[node] = 1 + max((height(target) for target in graph[node]), default=-1)
        return rows[node]

    for node in sorted(graph):
        height(node)
    return rows


def with_bends(graph: Graph, rows: dict[str, int]) -> tuple[Graph, dict[str, int]]:
    """The graph with a bend, "a>b@2", in each row that an edge from a to b passes."""
    bent: Graph = {node: set() for node in graph}
    bent_rows = dict(rows)
    for node in sorted(graph):
        for target in sorted(graph[node]):
            last = node
            for row in range(rows[node] - 1, rows[target], -1):
                bend = f"{node}>{target}@{row}"
                bent[last].add(bend)
                bent[bend] = set()
                bent_rows[bend] = row
                last = bend
            bent[last].add(target)
    return bent, bent_rows


def single_nodes(graph: Graph) -> list[str]:
    """The nodes that no edge joins, in reverse order: the first is drawn at the top of their column."""
    return sorted((node for part in parts(graph) if len(part) == 1 for node in part), reverse=True)


def columns(graph: Graph, rows: dict[str, int]) -> dict[str, float]:
    """The horizontal position of each node, in columns from 0.

    Parts that no import joins stand side by side; single nodes share the last column.
    """
    place: dict[str, float] = {}
    for part in parts(graph):
        if len(part) > 1:
            free = max(place.values(), default=-1.0) + 1
            place |= {node: free + x for node, x in part_columns(part, {node: rows[node] for node in part}).items()}
    return place | dict.fromkeys(single_nodes(graph), max(place.values(), default=-1.0) + 1)


def parts(graph: Graph) -> list[Graph]:
    """The connected parts of the graph as undirected graphs, the largest first."""
    joined: Graph = {node: set(targets) for node, targets in graph.items()}
    for node, targets in graph.items():
        for target in targets:
            joined[target].add(node)
    found: dict[frozenset[str], Graph] = {}
    for node in sorted(joined):
        members = frozenset(reachable(joined, node) | {node})
        found[members] = {member: joined[member] for member in members}
    return sorted(found.values(), key=lambda part: (-len(part), min(part)))


def part_columns(neighbours: Graph, rows: dict[str, int]) -> dict[str, float]:
    """The positions of the nodes of one part, near the nodes that each is joined to."""
    levels = [sorted(node for node in rows if rows[node] == row) for row in range(max(rows.values()) + 1)]
    place = {node: float(at) - len(level) / 2 for level in levels for at, node in enumerate(level)}
    for sweep in range(SWEEPS):
        for level in levels if sweep % 2 else reversed(levels):
            preferred = {
                node: mean((place[other] for other in neighbours[node]), default=place[node]) for node in level
            }
            place |= spread(preferred)
    left = min(place.values())
    return {node: x - left for node, x in place.items()}


def mean(values: Iterable[float], default: float) -> float:
    listed = list(values)
    return fsum(listed) / len(listed) if listed else default


def spread(preferred: dict[str, float]) -> dict[str, float]:
    """The positions of the nodes of a row: in their preferred order and near it, far enough from each other."""
    order = sorted(preferred, key=lambda node: (round(preferred[node], 6), node))
    place: dict[str, float] = {}
    for last, node in zip([None, *order], order, strict=False):
        place[node] = preferred[node] if last is None else max(preferred[node], place[last] + distance(last, node))
    shift = mean((preferred[node] - place[node] for node in order), default=0)
    return {node: round(x + shift, 6) for node, x in place.items()}


def distance(left: str, right: str) -> float:
    """The least distance of two nodes of a row, in columns. Bends, which have no box, stand closer."""
    bends = ("@" in left) + ("@" in right)
    return (1.0, 0.6, 0.2)[bends]


def package_drawing(package: str) -> Drawing:
    """One package as a box: its folders in rows, importers above what they import."""
    imports = folder_imports()
    folders = {folder for owner, folder in imports if owner == package and has_modules(package, folder)}
    whole = {node: {f for owner, f in imports[package, node] if owner == package and f in folders} for node in folders}
    graph = reduced(whole)
    bent, rows = with_bends(graph, heights(graph))
    rows |= {node: row for row, node in enumerate(single_nodes(bent))}
    column = columns(bent, rows)
    top = max(rows.values())
    centre = {
        node: (MARGIN + column[node] * COLUMN + COLUMN / 2, TITLE + (top - rows[node]) * ROW + NODE_HEIGHT / 2 + 8)
        for node in rows
    }
    width = max(max(x for x, _ in centre.values()) + COLUMN / 2, 270) + MARGIN
    height = TITLE + top * ROW + NODE_HEIGHT + MARGIN + 8
    others = sorted({owner for node in folders for owner, _ in imports[package, node]} - {package}, key=PACKAGES.index)
    title = f"{package}/" + (f" imports {', '.join(others)}" if others else " imports no other package")
    elements = [
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{COLOURS[package]}" stroke="#8a94a6"/>',
        f'<text x="{MARGIN}" y="23" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    elements += [edge(centre, node, target) for node in sorted(bent) for target in sorted(bent[node])]
    for node in sorted(folders):
        outside = sorted({owner for owner, _ in imports[package, node]} - {package}, key=PACKAGES.index)
        elements += folder_box(package, node, centre[node], outside)
    return Drawing(width, height, elements)


def edge(centre: dict[str, tuple[float, float]], node: str, target: str) -> str:
    """A curve from the bottom of a folder or bend to the top of the next, with an arrowhead at a folder."""
    (x, y), (to_x, to_y) = centre[node], centre[target]
    y += 0 if "@" in node else NODE_HEIGHT / 2
    to_y -= 0 if "@" in target else NODE_HEIGHT / 2
    middle = (y + to_y) / 2
    head = "" if "@" in target else ' marker-end="url(#arrow)"'
    path = f"M{x:g},{y:g} C{x:g},{middle:g} {to_x:g},{middle:g} {to_x:g},{to_y:g}"
    return f'<path d="{path}" fill="none" stroke="#5b6577" stroke-width="1.3"{head}/>'


def folder_box(package: str, folder: str, centre: tuple[float, float], outside: list[str]) -> list[str]:
    """A folder: its name, and the other packages that it imports."""
    x, y = centre
    name = folder.replace(".", "/") or "(top level)"
    box = f'<rect x="{x - NODE_WIDTH / 2:g}" y="{y - NODE_HEIGHT / 2:g}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}"'
    elements = [f'{box} rx="5" fill="#ffffff" stroke="#5b6577"/>']
    elements.append(label(x, y - 4 if outside else y + 5, name, 'font-size="13"'))
    if outside:
        others = "all other packages" if len(outside) == len(PACKAGES) - 1 else ", ".join(outside)
        size = 11 if len(others) <= LONG_LIST else 9.5
        elements.append(label(x, y + 14, f"→ {others}", f'font-size="{size:g}" fill="#5b6577"'))
    return elements


def has_modules(package: str, folder: str) -> bool:
    directory = PROJECT / package / folder.replace(".", "/")
    return any(path.name not in ("__init__.py", "__main__.py") for path in directory.glob("*.py"))


def label(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" {style}>{escape(text)}</text>'


def placed(drawing: Drawing, x: float, y: float) -> list[str]:
    return [f'<g transform="translate({x:g},{y:g})">', *drawing.elements, "</g>"]


def diagram() -> str:
    """The whole picture as SVG, the same text for the same imports."""
    groups: list[str] = []
    x, bottom, widest = float(MARGIN), 0.0, 0.0
    for stack in STACKS:
        y, right = float(MARGIN), x
        for drawing in map(package_drawing, stack):
            groups += placed(drawing, x, y)
            y += drawing.height + MARGIN
            right = max(right, x + drawing.width + MARGIN)
        x, bottom, widest = right, max(bottom, y), max(widest, right)
    for drawing in map(package_drawing, BELOW):
        groups += placed(drawing, MARGIN, bottom)
        bottom, widest = bottom + drawing.height + MARGIN, max(widest, MARGIN + drawing.width + MARGIN)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{widest:g}" height="{bottom:g}"'
        f' viewBox="0 0 {widest:g} {bottom:g}" font-family="Helvetica, Arial, sans-serif" fill="#1c2430">',
        "<title>The folders of owlt and their imports</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#5b6577"/></marker></defs>',
        f'<rect width="{widest:g}" height="{bottom:g}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *groups, "</svg>"]) + "\n"


if __name__ == "__main__":
    DIAGRAM.write_text(diagram())
    sys.stdout.write(f"{DIAGRAM.relative_to(PROJECT)}\n")
