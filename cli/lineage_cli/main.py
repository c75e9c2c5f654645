"""The command `smoke-lineage`: the table of verbs. A verb's module is imported when the verb is called."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from keyword import iskeyword
from types import FrameType
from typing import NoReturn

import click

from lineage_cli.options import State, debug_option

PROGRAM = "smoke-lineage"
USING_SPARK = {"run", "index", "demo", "doctor"}  # a remote session needs pandas
USING_NUMPY = {"refresh", "what-if", "audit"}
# Options with users' SQL. It is evaluated in another process, which starts while this one reads the catalog.
EVALUATING = ("query", "--where", "--order-by", "--by", "--cost", "--trust", "--without")


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's line in `--help`. It is kept here so that `--help` imports no verb."""

    help: str
    alias: str | None = None


VERBS = {
    "demo": Verb("Make sample data, run workflows over it, and show what lineage answers."),
    "init": Verb("Make a small project to start from."),
    "schema": Verb("Print the JSON Schema of the workflow file."),
    "validate": Verb("Check workflow files; report all problems."),
    "explain": Verb("Show what a run would do, and how lineage is captured."),
    "graph": Verb("Draw a workflow, or all of them."),
    "run": Verb("Run a workflow and capture its lineage."),
    "index": Verb("Finish lineage that was deferred or interrupted."),
    "import": Verb("Make a workflow file from a project of another tool."),
    "runs": Verb("List the runs."),
    "datasets": Verb("List the datasets."),
    "rows": Verb("Show rows of a dataset, with their row ids."),
    "backward": Verb("Show the input rows that these rows were made from.", alias="upstream"),
    "forward": Verb("Show the rows that were made from these rows.", alias="downstream"),
    "trace": Verb("Show the complete lineage of one record, as a tree."),
    "query": Verb("Answer SQL over datasets and their lineage."),
    "diff": Verb("Show what changed between two runs, and the source rows behind it."),
    "refresh": Verb("Bring outputs up to date after a change, without running everything again."),
    "what-if": Verb("Show what would change if rows of a source did not exist."),
    "why-not": Verb("Show why rows of a source are missing in an output."),
    "audit": Verb("Answer a person's request for access, erasure or correction, and prove it."),
    "gc": Verb("Remove what no committed run needs."),
    "doctor": Verb("Check the home, the catalog, its files, Java and Spark."),
}
ALIASES = {verb.alias: name for name, verb in VERBS.items() if verb.alias}


class LazyGroup(click.Group):
    """A group that imports a verb's module only when that verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """The verbs, in the order of the table; aliases are shown beside their verb."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb's command, by its name or alias."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in VERBS:
            return None
        module = f"{name}_" if iskeyword(name) else name.replace("-", "_")
        command = import_module(f"lineage_cli.commands.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, but suggests the closest verb if the verb is unknown."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            import difflib

            close = difflib.get_close_matches(name, [*VERBS, *ALIASES], n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" Verbs: {', '.join(VERBS)}."
            ctx.fail(f"No such verb '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(
                [
                    (name, f"{verb.help} (alias: {verb.alias})" if verb.alias else verb.help)
                    for name, verb in VERBS.items()
                ]
            )


@click.group(
    cls=LazyGroup,
    subcommand_metavar="VERB [OPTIONS] …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name=PROGRAM, prog_name=PROGRAM)
@debug_option(hidden=False)
def cli() -> None:
    """Row-level lineage for data pipelines: which input rows made this row,
    and what was made from this one?

    \b
    Start with:
      smoke-lineage demo               a demonstration on sample data, in a minute
      smoke-lineage init my-project    a small project of your own

    \b
    Then:
      smoke-lineage run bakery.yml
      smoke-lineage trace bills --rid 0

    `smoke-lineage VERB --help` explains each verb.
    """


class WithoutPandas:
    """An import finder that hides pandas, and hides numpy from pyarrow.

    If they are installed, pyarrow imports them with the first value, which takes most of a second and is not needed.
    Our own modules may still import numpy, and convert its arrays by `lineage_service.store.arrays`. A question that
    has to start Spark removes this finder first.
    """

    until_spark = True

    def __init__(self, numpy: bool = True) -> None:
        self.numpy = numpy

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        """Raises ModuleNotFoundError for the hidden modules; all others are found elsewhere."""
        if fullname == "pandas" or (fullname == "numpy" and self.numpy and _importer().startswith("pyarrow")):
            raise ModuleNotFoundError("not used by this program", name=fullname)


def _importer() -> str:
    """Returns the name of the module that executes the current import."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_globals.get("__name__", ""):
        frame = frame.f_back
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: runs one verb and exits with its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    gc.set_threshold(100_000, 50, 50)  # collecting cycles during imports would take a tenth of a short command
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # otherwise pydantic searches every installed package for plugins
    # A remote Spark session needs both, and a question may have to use one.
    if arguments is None and not set(given) & USING_SPARK and not os.environ.get("SPARK_REMOTE"):
        sys.meta_path.insert(0, WithoutPandas(numpy=not set(given) & USING_NUMPY))
    if arguments is None and any(each.partition("=")[0] in EVALUATING for each in given) and "--help" not in given:
        from lineage_service.bounded.process import start_ahead

        start_ahead()
    if os.environ.get("_SMOKE_LINEAGE_COMPLETE"):
        cli.main(given, prog_name=PROGRAM)  # prints completions for the shell, and exits
    # Libraries would log errors to standard error that we report ourselves; an interrupted py4j logs pages.
    logging.disable(logging.NOTSET if "--debug" in given else logging.CRITICAL)
    state = State()
    try:
        if arguments is None:
            _keep_files_private(given)
        code = _run_verb(given, state)
    # The one place where errors become messages and exit codes.
    except BaseException as error:
        from lineage_cli.error_messages import exit_code

        code = exit_code(error, debug=state.debug)
    sys.exit(code)


def _keep_files_private(given: Sequence[str]) -> None:
    """Sets the umask: only the user can read what the command and Spark write, unless SMOKE_UMASK is set."""
    # These make ordinary files of the user. So does a program, and what we keep of it is in a folder that is private.
    if not {"init", "import"} & set(given[:1]) and not any(word.endswith(".py") for word in given):
        from lineage_service.store.permissions import permission_mask

        os.umask(permission_mask())


def _run_verb(arguments: list[str], state: State) -> int:
    for each in arguments:
        _refuse_invalid_characters(each)
    # Not `cli.main`: it treats every broken pipe as one of standard output, also one between us and Spark.
    try:
        with cli.make_context(PROGRAM, arguments, obj=state) as context:
            cli.invoke(context)
    except click.exceptions.Exit as done:  # --help, --version
        sys.stdout.flush()
        return done.exit_code
    sys.stdout.flush()  # here, so that a closed pipe raises an error that is still handled
    return 0


def _refuse_invalid_characters(argument: str) -> None:
    """Raises UsageError for characters that no shell can pass in an argument."""
    try:
        if b"\0" not in os.fsencode(argument):
            return
    except UnicodeEncodeError:
        pass
    raise click.UsageError("An argument contains an invalid character (NUL or half of a surrogate pair).")


if __name__ == "__main__":
    main()
