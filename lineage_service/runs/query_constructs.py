"""For each node of a query's plan, the first words of the SQL construct that it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lineage_service.plan.build import Plan
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.sql_parsing import tokenize_query

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_MOST = 50  # characters
_OPENING = frozenset({"WHERE", "HAVING", "QUALIFY", "GROUP", "ORDER", "LIMIT", "OFFSET"})
_JOINS = frozenset({"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER"})
_LISTS = frozenset({"SELECT", "GROUP", "ORDER", "WITH"})
_CLAUSES = _OPENING | _JOINS | {"SELECT", "FROM", "UNION", "INTERSECT", "EXCEPT", "WINDOW", "LATERAL"}


def query_constructs(loaded: LoadedWorkflow, plan: Plan) -> dict[str, str]:
    """The first words of each node's construct, by the node's id. Nodes of a query have none if the file has its text
    in another form than Spark gets it, such as a folded scalar, or if only the query of a past run is kept.
    """
    found: dict[str, str] = {}
    nodes = plan.nodes()
    for index, sql in loaded.sql_texts.items():
        if not sql.exact or not plan.steps[loaded.spec.steps[index].name or ""].schema.known:
            continue
        tokens = tokenize_query(sql.text)
        places = {sql.position(token.start): number for number, token in reversed(list(enumerate(tokens)))}
        for node in nodes:
            if node.position in places and node.id.startswith(f"{node.step}:"):
                construct = _construct(sql.text, tokens, places[node.position])
                found[node.id] = loaded.hidden.in_part(construct)
    return found


def _construct(text: str, tokens: Sequence[Token], place: int) -> str:
    """The text from the clause's first word to the end of the clause, or of its list or parentheses."""
    first = place - 1 if place and _word(tokens[place - 1]) in _OPENING else place
    depth, last = 0, first
    is_list, in_clause = _word(tokens[first]) in _LISTS, _word(tokens[first]) in _CLAUSES
    is_behind_join = _word(tokens[first]) not in _JOINS
    for number in range(first + 1, len(tokens)):
        word = _word(tokens[number])
        depth += {"(": 1, ")": -1}.get(word, 0)
        ends = word in _CLAUSES and (is_behind_join or word not in _JOINS)
        ends = ends or (word in ("ON", "USING") and not in_clause)
        if depth < 0 or (depth == 0 and (ends or word == ";" or (word == "," and not is_list))):
            break
        is_behind_join = is_behind_join or word == "JOIN"
        last = number
    words = " ".join(text[tokens[first].start : tokens[last].end + 1].split())
    return words if len(words) <= _MOST else f"{words[:_MOST].rpartition(' ')[0]} …"


def _word(token: Token) -> str:
    """The token's first word: some of sqlglot's tokens have two."""
    return token.text.upper().partition(" ")[0]
