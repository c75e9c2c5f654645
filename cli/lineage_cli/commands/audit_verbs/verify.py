"""`smoke-lineage audit verify`."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import click

from lineage_cli import options
from lineage_cli.options import home_options

ANSWER_IS_NO = 4


@click.command("verify")
@click.argument("certificate", metavar="CERTIFICATE", type=click.Path(path_type=Path))
@click.option(
    "--values",
    metavar="FILE",
    help="The person's values again, one a line; `-` reads standard input. They are also found inside of others.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(certificate: Path, values: str | None, as_json: bool, home: str | None, catalog: str | None) -> None:
    """Scan the home, the published copies and the catalog for what was erased: every column, dictionary page and
    statistic of every file is decoded. Values are known by the keyed hashes in the certificate, and where they are
    given again with --values, also as parts of others.

    Says what it covered and what it could not, then whether it holds: exit code 4 where it does not, or where it
    could not look at everything.

    \b
    Examples:
      smoke-lineage audit verify certificate.json
      smoke-lineage audit verify certificate.json --values - < values.txt
    """
    from lineage_cli.progress import progress_line
    from lineage_cli.sink import print_text

    given = None if values is None else _lines(values)
    with closing(options.open_home(home, catalog)) as opened, progress_line(verbose=False, quiet=False) as progress:
        verdict = opened.audit.verify(certificate, values=given, progress=progress)
    from lineage_service.audit.erasure.erasure_verification import format_verdict

    print_text(json.dumps(verdict.to_json(), ensure_ascii=False) if as_json else format_verdict(verdict))
    if not verdict.holds:
        raise click.exceptions.Exit(ANSWER_IS_NO)


def _lines(values: str) -> list[str]:
    if values == "-":
        return [line.rstrip("\r\n") for line in sys.stdin if line.strip()]
    try:
        text = Path(values).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--values: the file cannot be read ({type(error).__name__}).") from None
    return [line for line in text.splitlines() if line.strip()]
