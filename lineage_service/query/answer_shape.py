"""The shape of an answer: rows, row ids, pairs or counts; and the semantics of `backward`: which, why or how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lineage_service.errors import QuestionError, did_you_mean
from lineage_service.query.answer import Kind

SEMANTICS = ("which", "why", "how")
EVALUATIONS = ("count", "boolean", "min-cost", "trust")

Removed = str | int | Iterable[int]


@dataclass(frozen=True)
class Top:
    """A request for only the highest-ranked rows: how many, and the expression (DuckDB SQL over their columns) to rank
    by.
    """

    n: int
    by: str

    @classmethod
    def of(cls, top: int | None, by: str | None) -> Top | None:
        """Combines the arguments `top` and `by`. Raises QuestionError if one of them is missing."""
        if top is None and by is None:
            return None
        if by is None:
            raise QuestionError("top needs a measure to rank rows by", hint="a column or expression of theirs: by")
        if top is None:
            raise QuestionError("by is the measure of top: say how many rows", hint="for instance top 10")
        return cls(top, by)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise QuestionError("top is a number of rows, 1 or larger")


@dataclass(frozen=True)
class AnswerShape:
    """The columns, their order, the limit, and whether rows, rids, pairs or a count are returned."""

    limit: int | None = None
    columns: tuple[str, ...] | None = None
    order_by: tuple[str, ...] = ()
    rids: bool = False
    pairs: bool = False
    count: bool = False
    roles: bool = False
    influence: bool = False
    top: Top | None = None
    reveal: bool = False  # show the values of masked columns
    unchanged: bool = False  # leave out rows of files that have changed since the run

    @property
    def kind(self) -> Kind:
        return "pairs" if self.pairs else "count" if self.count else "rids" if self.rids else "rows"

    def __post_init__(self) -> None:
        if sum((self.rids, self.pairs, self.count)) > 1:
            raise QuestionError("ask for rids, pairs or a count, not several at once")
        if self.limit is not None and self.limit < 0:
            raise QuestionError("a limit cannot be negative")
        if self.unchanged and (self.rids or self.pairs or self.count or self.top is not None):
            raise QuestionError("`unchanged` applies to rows only, and not to rids, pairs, counts or top")
        if self.roles and not self.pairs:
            raise QuestionError("roles are a column of pairs: ask for pairs too")
        if self.top is not None:
            given = {
                "pairs": self.pairs,
                "count": self.count,
                "order_by": self.order_by,
                "limit": self.limit is not None,
            }
            for name in (name for name, value in given.items() if value):
                raise QuestionError(f"top says which rows, how many and in what order: it does not go with {name}")


@dataclass(frozen=True)
class EvaluationRequest:
    """How to evaluate a provenance polynomial.

    `without` names the removed rows by dataset, as rids or as a predicate. `cost` and `trust` are expressions over the
    columns of a dataset. With `reveal`, these may read masked columns.
    """

    into: str | None = None
    without: Mapping[str, Removed] = field(default_factory=dict)
    cost: Mapping[str, str | float] = field(default_factory=dict)
    trust: Mapping[str, str | float] = field(default_factory=dict)
    reveal: bool = False

    @property
    def is_asked(self) -> bool:
        return bool(self.into or self.without or self.cost or self.trust)

    def check(self, semantics: str) -> None:
        if self.into is not None and self.into not in EVALUATIONS:
            raise QuestionError(
                f"unknown evaluation '{self.into}'; evaluations: {', '.join(EVALUATIONS)}",
                hint=did_you_mean(self.into, EVALUATIONS),
            )
        if self.into is not None and semantics != "how":
            raise QuestionError("an evaluation is of polynomials: it goes with semantics how")
        for given, name, into in (
            (self.without, "without", "boolean"),
            (self.cost, "cost", "min-cost"),
            (self.trust, "trust", "trust"),
        ):
            if given and self.into != into:
                raise QuestionError(f"'{name}' goes with the evaluation {into}")
        if self.into == "boolean" and not self.without:
            raise QuestionError("say which rows are gone: without SOURCE=RID or SOURCE=PREDICATE")


def is_explanation(semantics: str, evaluation: EvaluationRequest, only_which: Mapping[str, object]) -> bool:
    """Whether a question asks for why or how provenance, or for an evaluation.

    Raises QuestionError for unknown semantics, and for arguments that are only valid with the semantics `which`.
    """
    if semantics not in SEMANTICS:
        raise QuestionError(f"unknown semantics '{semantics}'; semantics: {', '.join(SEMANTICS)}")
    for name in (name for name, value in only_which.items() if value and semantics != "which"):
        raise QuestionError(f"'{name}' goes with semantics which, not with {semantics}")
    return semantics != "which" or evaluation.is_asked
