"""The same query written in another way: letters, quotes, line breaks and comments make no difference to Spark."""

from collections.abc import Iterable
from random import Random

from sqlglot.dialects.spark import Spark

GAPS = (" ", " ", " ", "\n", "\n  ", "\t", " /* a, 'b */ ", " -- c) FROM\n")


def respell(text: str, names: Iterable[str], random: Random) -> str:
    """The text with another spelling of its keywords, of these names and of its white space."""
    known = {name.lower() for name in names}
    lower, gaps = random.random() < 0.5, random.random() < 0.4
    pieces, end = [], 0
    for token in Spark().tokenize(text):
        if token.start < end:  # 1.5D is several tokens to sqlglot
            continue
        gap, word = text[end : token.start], text[token.start : token.end + 1]
        end = token.end + 1
        if gap and gaps and random.random() < 0.3:
            gap = random.choice(GAPS)
        if word.lower() in known:
            word = random.choice([word, word, word, word.upper(), f"`{word}`"])
        elif token.token_type.name not in ("STRING", "IDENTIFIER", "VAR", "HINT") and lower:
            word = word.lower()
        pieces += [gap, word]
    return "".join(pieces) + text[end:]
