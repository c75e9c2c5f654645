"""Files that are made to hurt: each is refused soon, in one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineage_service.errors import WorkflowError
from lineage_service.spec.loader import load_workflow
from lineage_service.spec.yaml_tree import parse_tree
from tests.support.work import calls_of

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 10)
)
MERGES = "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 10))
CHAIN = "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 2000))
NESTED = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 100,000 values"),
        (MERGES, "more than 100,000 values"),
        (CHAIN, "nested deeper than 50 levels"),
        (NESTED, "nested deeper than 50 levels"),
        ("[" * 200_000, "nested deeper than 50 levels"),
        ("{a: " * 100_000, "nested deeper than 50 levels"),
        ("- " * 100_000, "nested deeper than 50 levels"),
        ("? " * 100_000, "nested deeper than 50 levels"),
        ("a: " + "9" * 10_000 + "\nb: 0x" + "f" * 10_000, None),
    ],
    ids=["aliases", "merges", "merge chain", "nested aliases", "brackets", "braces", "dashes", "keys", "digits"],
)
def test_bombs_are_refused_soon(text: str, message: str | None) -> None:
    """Soon is counted: unbounded, each of these takes minutes."""

    def read() -> None:
        if message is None:
            assert parse_tree(text, "w.yml").value["a"] == "9" * 10_000
        else:
            with pytest.raises(WorkflowError, match=message):
                parse_tree(text, "w.yml")

    calls_of(read, most=4_000_000)


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.yml"
    path.write_bytes(b"a: b\n" * 2_000_000)
    with pytest.raises(WorkflowError, match=r"has 10,000,000 bytes; the limit is 1,048,576 \(1 MiB\)"):
        load_workflow(path)
