"""Escapes for characters that could control a terminal or hide text.

Names and values come from users' files. A control character in one could move the cursor, and a direction mark could
reorder what is read.
"""

from __future__ import annotations

import re

# Control characters, direction marks, characters without width, and halves of surrogate pairs.
_UNSEEN = "\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff"
_UNSAFE_IN_LINE = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_UNSAFE_IN_TEXT = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_line(text: str) -> str:
    """Returns the text on one line: unsafe characters, line ends and tabs are written as escapes."""
    return _UNSAFE_IN_LINE.sub(
        lambda m: _ESCAPES.get(m[0], f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}"), text
    )


def escape_text(text: str) -> str:
    """Returns the text with unsafe characters written as escapes; line ends and tabs stay.

    JSON remains valid JSON: it has no control characters below U+0020 left, and all others get an escape that JSON
    knows.
    """
    return _UNSAFE_IN_TEXT.sub(
        lambda match: f"\\x{ord(match[0]):02x}" if match[0] < " " else f"\\u{ord(match[0]):04x}", text
    )
