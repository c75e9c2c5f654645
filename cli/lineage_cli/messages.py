"""What is said to people: text of workflows, files and data in it cannot steer the terminal."""

from __future__ import annotations

import re

import click

# Control characters but line ends and tabs, what changes the direction of writing, and what has no width.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with characters that are not seen, or steer a terminal, written as escapes. JSON stays JSON: what it
    has not escaped itself gets an escape of JSON."""
    return _UNSEEN.sub(lambda match: f"\\x{ord(match[0]):02x}" if match[0] < " " else f"\\u{ord(match[0]):04x}", text)


def tell(text: object) -> None:
    """A message on standard error."""
    click.echo(visible(str(text)), err=True)
