"""Plans and certificates as JSON files, sealed with the home's key so that any change is detected."""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lineage_service.errors import LineageError, NotFound, StoreError
from lineage_service.store.home_key import HomeKey
from lineage_service.store.layout import new_run_id
from lineage_service.store.out_file import cannot_write, check_out_file
from lineage_service.store.permissions import make_private

SEAL = "seal"
ONLY_READ = "source files that are only read"  # prefix of the `not_covered` entry that names them
MOST_BYTES = 64 * 1024 * 1024


def reservations(document: Mapping[str, Any]) -> list[str]:
    """What a plan or certificate leaves unchanged, in short form. Shown wherever it is said to hold."""
    found = []
    if any(each.startswith(ONLY_READ) for each in document["not_covered"]):
        erased = document.get("certificate_of", document.get("kind")) == "erasure"
        found.append(
            "the source files were not rewritten and may still hold the person's rows"
            if erased
            else "the source files were not corrected and may still hold the old values"
        )
    if document["retained"]:
        rows = sum(each["rows"] for each in document["retained"])
        found.append(f"{rows:,} {'row is' if rows == 1 else 'rows are'} retained under a legal hold")
    return found


def seal_document(document: Mapping[str, Any], key: HomeKey) -> dict[str, Any]:
    body = {name: value for name, value in document.items() if name != SEAL}
    return {**body, SEAL: {"key": key.id, "hmac": key.seal(_bytes(body))}}


def write_document(document: Mapping[str, Any], path: Path) -> None:
    """Writes a file completely or not at all; to a device directly. Raises LineageError if it cannot be written."""
    target, is_device = check_out_file(path)
    waiting = target if is_device else target.with_name(f".{target.name[:200]}.{new_run_id()}")
    try:
        with waiting.open("w", encoding="utf-8") as stream:
            stream.write(_text(document))
            if not is_device:
                stream.flush()
                os.fsync(stream.fileno())
        if not is_device:
            make_private(waiting)
            waiting.rename(target)
    except OSError as error:
        if not is_device:
            waiting.unlink(missing_ok=True)
        raise cannot_write(str(path), error) from error


def read_document(path: Path, key: HomeKey, what: str) -> dict[str, Any]:
    """Reads a document. Raises LineageError if it was edited or truncated, or belongs to another home."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise LineageError(f"'{path}' is too large to be a {what}")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file '{path}'") from None
    except OSError as error:
        raise StoreError(f"cannot read '{path}': {(error.strerror or 'unreadable').lower()}") from None
    return verify_document(raw, key, what, f"'{path}'")


def verify_document(raw: bytes, key: HomeKey, what: str, where: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
        seal = document.pop(SEAL)
        own, mac = seal["key"], seal["hmac"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise LineageError(f"{where} is no {what} of smoke-lineage, or was changed") from None
    if own != key.id:
        raise LineageError(
            f"the {what} {where} was made with another key than this home's", hint="is it of another home? see --home"
        )
    # Also the bytes: a change that JSON ignores, such as white space, is a change.
    intact = raw in (_text({**document, SEAL: seal}).encode(), _text({**document, SEAL: seal}).rstrip("\n").encode())
    if not hmac.compare_digest(mac, key.seal(_bytes(document))) or not intact:
        raise LineageError(f"the {what} {where} was changed since it was made", hint="make it again; nothing was done")
    return dict(document)


def _bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
