"""Stub."""
from __future__ import annotations
from typing import Any


class Survival:
    def __init__(self, ask: Any, derivations: Any) -> None: ...

    def refuse_unsure(self, places: Any) -> None: ...
