"""Messages to the user on standard error."""

from __future__ import annotations

import click

from lineage_service.render.safe_text import escape_text


def tell(text: object) -> None:
    """Prints a message; characters from users' files in it cannot control the terminal."""
    click.echo(escape_text(str(text)), err=True)
