"""The text of original files: decompressed, decoded by the rules of Java and Hadoop, streamed in chunks."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TextIO, cast

CHUNK = 1 << 20
_UNREAD = (".deflate", ".snappy", ".lz4", ".zst", ".zstd", ".lzo")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class UnknownReading(Exception):
    """The file is read in a way in which records cannot be located here."""


def open_decompressed(path: str) -> BinaryIO:
    """The decompressed bytes of a file. Hadoop decides by the suffix too."""
    if path.endswith(_UNREAD):
        raise UnknownReading
    if path.endswith(".gz"):
        return cast(BinaryIO, gzip.open(path))
    if path.endswith(".bz2"):
        return cast(BinaryIO, bz2.open(path))
    return Path(path).open("rb")


def declared_encoding(reading: Mapping[str, str]) -> str:
    """The declared encoding by its Python name. Without a byte order mark, Java assumes big-endian."""
    name = reading.get("encoding", reading.get("charset", "UTF-8"))
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        raise UnknownReading from None
    return f"{codec}-be" if codec in ("utf-16", "utf-32") else codec


def keeps_ascii(codec: str) -> bool:
    """Whether ASCII characters are single bytes of the same value, so that lines can be found without decoding."""
    ascii_bytes = bytes(range(128))
    return ascii_bytes.decode(codec, "replace") == ascii_bytes.decode("ascii")


def as_latin1(text: str, reading: Mapping[str, str]) -> str:
    """A text as it appears in a file whose bytes are read as Latin-1."""
    return text.encode(declared_encoding(reading), "replace").decode("latin-1")


def skip_byte_order_mark(text: TextIO) -> None:
    """Skips a UTF-8 byte order mark, as Hadoop does before any decoding."""
    if text.read(3) != codecs.BOM_UTF8.decode("latin-1"):
        text.seek(0)


def decode_chunks(
    raw: BinaryIO, reading: Mapping[str, str], *, universal: bool, detect_utf16: bool = False
) -> Iterator[str]:
    """The text of a file that is decoded as a whole. A byte order mark takes precedence over the declared encoding.

    `detect_utf16`: without a declared encoding, a zero byte at the beginning means UTF-16, as in Jackson.
    """
    head = raw.read(4)
    raw.seek(0)
    codec = next((codec for mark, codec in _BOMS if head.startswith(mark)), declared_encoding(reading))
    if detect_utf16 and "encoding" not in reading and "charset" not in reading and 0 in head[:2]:
        codec = "utf-16-be" if head[0] == 0 else "utf-16-le"
    with text_stream(raw, codec, universal=universal) as text:
        while chunk := text.read(CHUNK):
            yield chunk


def text_stream(raw: BinaryIO, codec: str, *, universal: bool) -> TextIO:
    return io.TextIOWrapper(raw, encoding=codec, errors="replace", newline=None if universal else "")


def is_true(reading: Mapping[str, str], option: str) -> bool:
    return reading.get(option, "").lower() == "true"
