"""A picture of workflows in the format asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineage_service.render.safe_text import escape_text

if TYPE_CHECKING:
    from lineage_service.runs.workflow_graph import Picture

PICTURE_FORMATS = ("mermaid", "dot", "svg", "html")


def picture_text(picture: Picture, format_: str, *, markdown: bool = False) -> str:
    """Returns the picture as Mermaid, DOT, SVG or an HTML page; `markdown` puts Mermaid into a fenced block."""
    return escape_text(_draw(picture, format_, markdown=markdown))


def _draw(picture: Picture, format_: str, *, markdown: bool) -> str:
    match format_:
        case "dot":
            from lineage_service.render.pictures.dot import dot

            return dot(picture)
        case "svg":
            from lineage_service.render.pictures.svg import svg

            return svg(picture)
        case "html":
            from lineage_service.render.html.picture_page import picture_page

            return picture_page(picture)
        case _:
            from lineage_service.render.pictures.mermaid import markdown_block, mermaid

            text = mermaid(picture)
            return markdown_block(text) if markdown else text
