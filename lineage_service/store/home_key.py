"""The key of a home, by which values of persons are hashed for the catalog and the log.

It is stored in the home with mode 0600, apart from the catalog, or given by the environment and never written.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field

from lineage_service.errors import StoreError
from lineage_service.store.layout import HomeLayout, translate_disk_errors

VARIABLE = "SMOKE_AUDIT_KEY"
NAME = "audit.key"
SIZE = 32


@dataclass(frozen=True)
class HomeKey:
    """A secret. `id` identifies it without disclosing it."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hmac.new(self.secret, b"the id of this key", hashlib.sha256).hexdigest()[:16]

    def subject(self, kind: str, value: str) -> bytes:
        """The hash of a person: 16 bytes. `value` is canonical text (subjects/hashing.py computes the same in SQL)."""
        return hmac.new(self.secret, f"{kind_prefix(kind)}{value}".encode(), hashlib.sha256).digest()[:16]

    @property
    def pads(self) -> tuple[bytes, bytes]:
        """The outer and the inner pad of HMAC-SHA256, for an engine that only has SHA-256."""
        block = (self.secret if len(self.secret) <= 64 else hashlib.sha256(self.secret).digest()).ljust(64, b"\0")
        return bytes(byte ^ 0x5C for byte in block), bytes(byte ^ 0x36 for byte in block)

    def value(self, text: str) -> str:
        """The keyed hash of a value."""
        return hashlib.blake2b(text.encode(), digest_size=16, key=self.secret, person=b"smoke value").hexdigest()

    def seal(self, text: bytes) -> str:
        """The seal of a document, which proves that this home wrote it."""
        return hmac.new(self.secret, text, hashlib.sha256).hexdigest()


def kind_prefix(kind: str) -> str:
    """The prefix of values of a kind, so that persons of two kinds never have the same hash."""
    return f"{len(kind)}:{kind}:"


def existing_key(home: HomeLayout) -> HomeKey | None:
    """The key of a home; None if it has none yet."""
    given = os.environ.get(VARIABLE)
    if given:
        return HomeKey(_decode_secret(given, f"the environment variable {VARIABLE}"))
    path = home.path / NAME
    try:
        return HomeKey(_decode_secret(path.read_text(encoding="ascii"), f"the file '{path}'"))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise StoreError(f"the file '{path}' holds no key", hint="restore it from a backup") from None
    except OSError as error:
        raise StoreError(f"cannot read the key '{path}': {(error.strerror or 'unreadable').lower()}") from error


def readable_key(home: HomeLayout) -> HomeKey | None:
    """The key of a home; None if it has none or it cannot be read."""
    try:
        return existing_key(home)
    except StoreError:
        return None


def home_key(home: HomeLayout) -> HomeKey:
    """The key of a home, created if it never had one. Raises StoreError if it is lost: with a new key, persons recorded
    or erased with the old one would not be found again.
    """
    found = existing_key(home)
    if found is not None:
        return found
    if any(home.runs.glob("*/subjects/*")):
        found = existing_key(home)  # of two first runs at once the other may have made it just now
        if found is None:
            raise lost_key(home)
        return found
    path = home.path / NAME
    begun = path.with_name(f".{NAME}.{secrets.token_hex(6)}")
    with translate_disk_errors(home.path):
        home.path.mkdir(parents=True, exist_ok=True)
        handle = os.open(begun, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.write(handle, secrets.token_hex(SIZE).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        with suppress(FileExistsError):  # of two first runs at once one makes it
            os.link(begun, path)
        begun.unlink()
    return HomeKey(_decode_secret(path.read_text(encoding="ascii"), f"the file '{path}'"))


def lost_key(home: HomeLayout) -> StoreError:
    """The error for a lost key with which persons were recorded."""
    return StoreError(
        f"the key of the home '{home.path}' is lost: persons were noted with it, and nobody would find them again with "
        "another",
        hint=f"restore '{NAME}' from a backup, or give it by {VARIABLE}",
    )


def _decode_secret(text: str, where: str) -> bytes:
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) < SIZE:
        raise StoreError(
            f"{where} holds no key: {2 * SIZE} hexadecimal digits are expected", hint="openssl rand -hex 32"
        )
    return secret
