"""Options that several verbs share, and the checks of how they are combined."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lineage_service.home import Home

F = TypeVar("F", bound=Callable[..., Any])

ENGINES = ("auto", "duckdb", "spark")
CAPTURES = ("auto", "inject", "defer", "stage", "lazy", "off")
FORMATS = ("table", "json", "ndjson", "csv", "parquet")
SUFFIXES = {".json": "json", ".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".parquet": "parquet"}
PLAIN_SUFFIXES = ("", ".txt")
TERMINAL_LIMIT = 50
LARGEST_RID = 2**63 - 1


@dataclass(slots=True)
class State:
    """Settings of one call of the program, for every verb."""

    debug: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """File and format of an answer; `out` None is standard output."""

    format: str
    out: Path | None = None

    @property
    def on_terminal(self) -> bool:
        """Whether the answer is printed on a terminal."""
        return self.out is None and is_terminal(sys.stdout)

    def limit(self, given: int | None) -> int | None:
        """The limit asked for; else 50 for tables on a terminal, and none otherwise."""
        if given is None and self.format == "table" and self.on_terminal:
            return TERMINAL_LIMIT
        return given


@dataclass(frozen=True, slots=True)
class Start:
    """The rows a question starts from: those that match all of rids, keys and predicate, or all rows."""

    rid: Iterable[int] | None
    key: Sequence[tuple[str, str]] | None
    where: str | None
    all: bool

    def arguments(self) -> dict[str, Any]:
        """As keyword arguments of Home's questions."""
        return {"rid": self.rid, "key": self.key, "where": self.where, "all": self.all}


def open_home(home: str | None, catalog: str | None) -> Home:
    """Opens the home that the options name. All verbs use this."""
    from lineage_service.home import Home

    return Home.open(home, catalog=catalog)


def is_terminal(stream: IO[Any]) -> bool:
    """Whether the stream is a terminal."""
    try:
        return stream.isatty()
    except ValueError:  # a closed stream
        return False


def debug_option(*, hidden: bool = True) -> Callable[[F], F]:
    """`--debug`, accepted before and after the verb."""

    def remember(context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.ensure_object(State).debug = True

    return click.option(
        "--debug",
        is_flag=True,
        hidden=hidden,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show the traceback when something fails.",
    )


def spark_options(function: F) -> F:
    """Options of the Spark session, and the engine that builds the index."""
    return session_options(
        click.option(
            "--index-engine",
            type=click.Choice(ENGINES),
            default="auto",
            help="Engine that sorts and writes the index; auto: DuckDB, or Spark if the index is very large.",
        )(function)
    )


def session_options(function: F) -> F:
    """Options of the Spark session."""
    for option in (
        click.option(
            "--conf",
            type=Assignment(),
            multiple=True,
            metavar="NAME=VALUE",
            help="Setting of the Spark session; repeatable.",
        ),
        click.option("--remote", metavar="URL", help="Spark Connect server, such as sc://host."),
        click.option("--master", metavar="URL", help="Spark master, such as local[4]."),
    ):
        function = option(function)
    return function


def home_options(function: F, *, hidden: bool = False) -> F:
    """Options of every verb: `--home`, `--catalog`, `--debug`."""
    for option in (
        debug_option(),
        click.option(
            "--catalog",
            metavar="URL",
            hidden=hidden,
            help="Catalog database. [default: $SMOKE_CATALOG, else SQLite in the home]",
        ),
        click.option(
            "--home",
            metavar="DIR",
            hidden=hidden,
            help="Home folder. [default: $SMOKE_HOME, else the nearest .smoke here or above, else a new one here]",
        ),
    ):
        function = option(function)
    return function


def unused_home_options(function: F) -> F:
    """The same options for a verb that opens no home: they are accepted, but not shown in its help."""
    return home_options(function, hidden=True)


def output_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--format`, `--out`, `--json`; passed to the verb as one argument `output`."""

    @click.option(
        "--format", "format_", type=click.Choice(FORMATS), help="Format. [default: by the suffix of --out, else table]"
    )
    @click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
    @click.option(
        "--out",
        metavar="FILE",
        type=click.Path(path_type=Path, readable=False),
        help="Write to this file; required for parquet.",
    )
    @wraps(function)
    def with_output(*args: Any, format_: str | None, as_json: bool, out: Path | None, **options: Any) -> None:
        function(*args, output=chosen_output(format_, as_json, out), **options)

    return with_output


def chosen_output(format_: str | None, as_json: bool, out: Path | None) -> Output:
    """Combines the three options."""
    out = file_or_none(out)
    format_ = chosen_format(format_, as_json, out, SUFFIXES, FORMATS)
    if format_ == "parquet" and out is None:
        raise click.UsageError("--format parquet needs --out FILE.")
    return Output(format_, out)


def file_or_none(out: Path | None) -> Path | None:
    """Returns the file to write, or None for standard output (`-`)."""
    return None if out is None or str(out) == "-" else out


def chosen_format(
    given: str | None, as_json: bool, out: Path | None, suffixes: Mapping[str, str], formats: Sequence[str]
) -> str:
    """Returns the format given, else the one of the file's suffix, else the first of `formats`."""
    if as_json and given not in (None, "json"):
        raise click.UsageError(f"--json and --format {given} contradict each other.")
    if given is not None or as_json:
        return given or "json"
    suffix = "" if out is None else out.suffix.lower()
    if suffix in PLAIN_SUFFIXES:
        return formats[0]
    if suffix not in suffixes:
        choices = f"{', '.join(formats[:-1])} or {formats[-1]}"
        raise click.UsageError(f"Cannot tell the format from '{suffix}'; give --format {choices}.")
    return suffixes[suffix]


class WholeNumber(click.ParamType[Any]):
    """A whole number, 0 or larger; `N` in the help."""

    name = "n"
    wanted = "expected a whole number, 0 or larger"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        if isinstance(value, int):
            return value
        number = as_rid(value)
        if number is None:
            self.fail(self.wanted, param, ctx)
        return number


class Count(WholeNumber):
    """A whole number, 1 or larger."""

    wanted = "expected a whole number, 1 or larger"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        number = super().convert(value, param, ctx)
        if number < 1:
            self.fail(self.wanted, param, ctx)
        return number


class Tolerance(click.ParamType[Any]):
    """A relative difference, from 0 to below 1; `R` in the help."""

    name = "r"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < 1:  # also false for NaN
            self.fail("expected a number from 0 (exact) to below 1, such as 1e-9", param, ctx)
        return number


class Rid(WholeNumber):
    """A row id; if `piped`, also `-`, for row ids from standard input."""

    def __init__(self, *, piped: bool = False) -> None:
        self._piped = piped
        self.wanted = "a row id is a whole number, 0 or larger"
        if piped:
            self.wanted += "; `-` reads row ids from standard input"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The row id as a number; `-` stays."""
        return value if self._piped and value == "-" else super().convert(value, param, ctx)


def limit_option(function: F) -> F:
    """`--limit`."""
    return click.option(
        "--limit",
        type=WholeNumber(),
        help=f"At most N rows. [default: {TERMINAL_LIMIT} for tables on a terminal, else no limit]",
    )(function)


def reveal_option(function: F) -> F:
    """`--reveal`."""
    return click.option(
        "--reveal",
        is_flag=True,
        help="Show personal data unmasked, and allow predicates on it. This is logged. [default: masked]",
    )(function)


def unchanged_option(function: F) -> F:
    """`--unchanged`."""
    return click.option(
        "--unchanged",
        is_flag=True,
        help="Only rows of source files that have not changed since the run; a note counts the others.",
    )(function)


def row_options(function: Callable[..., None]) -> Callable[..., None]:
    """`--limit`, `--columns`, `--order-by`, the latter two as lists or None."""

    @click.option("--columns", multiple=True, metavar="A,B", help="Only these columns; repeatable.")
    @click.option("--order-by", multiple=True, metavar="A,B", help="Order of the rows: columns, `A desc`; repeatable.")
    @limit_option
    @wraps(function)
    def with_lists(*args: Any, columns: tuple[str, ...], order_by: tuple[str, ...], **options: Any) -> None:
        names = [name for text in columns for name in split_names(text)]
        if columns and not names:
            raise click.UsageError("--columns names no column.")
        function(
            *args,
            columns=names or None,
            order_by=[term for text in order_by for term in split_terms(text)] or None,
            **options,
        )

    return with_lists


def split_names(text: str) -> list[str]:
    """Splits 'a, b' into ['a', 'b']. A name with a comma, or with spaces at its ends, is given in double quotes."""
    names = []
    for part in re.findall(r"""(?:[^,"]|"(?:[^"]|"")*")+""", text):
        name = part.strip()
        quoted = len(name) > 1 and name.startswith('"') and name.endswith('"')
        names.append(name[1:-1].replace('""', '"') if quoted else name)
    return [name for name in names if name]


def split_terms(text: str) -> list[str]:
    """Splits 'a desc, round(b, 1)' at commas outside of brackets and quotes."""
    terms = re.findall(r"""(?:[^,("'`]|"[^"]*"|'[^']*'|`[^`]*`|\((?:[^()]|\([^()]*\))*\)|[("'`])+""", text)
    return [term.strip() for term in terms if term.strip()]


def as_rid(text: str) -> int | None:
    """Returns the row id that `text` spells, or None. Counts and limits have the same maximum."""
    if not (text.isascii() and text.isdigit()):
        return None
    rid = int(text) if len(text) < 40 else LARGEST_RID + 1
    return rid if rid <= LARGEST_RID else None


def rids_from(lines: Iterable[str]) -> array[int]:
    """Reads row ids separated by white space. A first line `_rid` is skipped: it is the header of our own CSV."""
    from lineage_service.errors import QuestionError

    rids = array("q")
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if number == 1 and words == ["_rid"]:
            continue
        for word in words:
            rid = as_rid(word)
            if rid is None:
                raise QuestionError(
                    f"standard input, line {number}: not a row id",
                    hint="row ids are whole numbers, 0 or larger, separated by spaces or line ends",
                )
            rids.append(rid)
    return rids


class Assignment(click.ParamType[tuple[str, str]]):
    """NAME=VALUE, split at the first `=`."""

    name = "assignment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Name and value; the value may be empty, the name may not."""
        if isinstance(value, tuple):
            return value
        name, equals, rest = str(value).partition("=")
        if not equals or not name:
            self.fail(f"expected {(param.metavar if param else None) or 'NAME=VALUE'}", param, ctx)
        return name, rest


def start_options(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--rid`, `--key`, `--where`, `--all`; passed to the verb as one argument `start`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "--rid",
            "start_rids",
            type=Rid(piped=True),
            multiple=True,
            help="Row id; repeatable; - reads standard input.",
        )
        @click.option(
            "--key",
            type=Assignment(),
            multiple=True,
            metavar="COLUMN=VALUE",
            help="Rows whose COLUMN has this VALUE; repeatable.",
        )
        @click.option("--where", metavar="PREDICATE", help="Rows for which this holds; DuckDB SQL.")
        @click.option("--all", "all_", is_flag=True, help="All rows." if required else "All rows (the default).")
        @wraps(function)
        def with_start(
            *args: Any,
            start_rids: tuple[Any, ...],
            key: tuple[tuple[str, str], ...],
            where: str | None,
            all_: bool,
            **options: Any,
        ) -> None:
            function(*args, start=chosen_start(start_rids, key, where, all_, required=required), **options)

        return with_start

    return decorate


def chosen_start(
    rids: Sequence[Any], key: Sequence[tuple[str, str]], where: str | None, all_: bool, *, required: bool
) -> Start:
    """Combines the four options."""
    chosen = bool(rids or key or where is not None)
    if all_ and chosen:
        raise click.UsageError("--all means every row: it cannot be combined with --rid, --key or --where.")
    if required and not chosen and not all_:
        raise click.UsageError("Say which rows to start from: --rid, --key, --where or --all.")
    numbers: Iterable[int] | None = [rid for rid in rids if rid != "-"] if rids else None
    if "-" in rids:
        piped = rids_from(line.decode("ascii", "replace") for line in sys.stdin.buffer)
        piped.extend(numbers or ())
        numbers = piped
    return Start(numbers, list(key) or None, where, all_ or not chosen)


def var_option(function: F) -> F:
    """`--var`, as pairs."""
    return click.option(
        "--var",
        "variables",
        type=Assignment(),
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of a variable of the workflow; repeatable.",
    )(function)


def source_option(function: F) -> F:
    """`--source`, as pairs."""
    return click.option(
        "--source",
        "sources",
        type=Assignment(),
        multiple=True,
        metavar="NAME=PATH",
        help="Path of a table that a .sql file reads: a file, folder or glob; repeatable.",
    )(function)


def as_mapping(pairs: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """Returns repeated NAME=VALUE as a mapping; the last value of a name wins."""
    return dict(pairs)
