"""The forms in which lineage between two spaces is kept. The catalog holds their values as text."""

from __future__ import annotations

from enum import StrEnum


class HopForm(StrEnum):
    """How the pairs of a hop are kept. A `match` over it ends in `assert_never`, so mypy names the places that must
    follow where a form is added."""

    PAIRS = "pairs"  # two files of pairs, one sorted for each direction
    COLUMN = "column"  # the column of ids in the dataset's own files; a file forward, unless the ids only increase
    FORMULA = "formula"  # nothing: the id behind row a is computed from a
    KEYED = "keyed"  # pairs backward; forward the source's own key columns answer
    EVERYTHING = "everything"  # nothing: every row of the target is behind every id
    CONSTANT = "constant"  # nothing: id 0 of the target is behind every row
    INTERVAL = "interval"  # bounds of positions in an ordered window; one file for both directions
    LAZY = "lazy"  # nothing: Spark captures the pairs when a question needs them
    EMPTY = "empty"  # nothing: there are no pairs
    PRUNED = "pruned"  # nothing: no declared question needs the pairs
    OFF = "off"  # nothing: the run captured no lineage; never stored, stands for a hop that the run may have had
