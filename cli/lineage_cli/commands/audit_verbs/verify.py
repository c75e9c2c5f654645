"""`smoke-lineage audit verify`."""

from __future__ import annotations

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
    help="The person's values, one per line, to be found inside longer values too; `-` reads standard input.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@home_options
def command(certificate: Path, values: str | None, as_json: bool, home: str | None, catalog: str | None) -> None:
    """Search the home, the published copies and the catalog for data that was erased. Every column, dictionary page
    and statistic of every file is decoded. Values are recognised by the keyed hashes in the certificate. Values that
    are given again with --values are also found as parts of longer ones.

    Prints what was searched, what could not be searched, and the result. The exit code is 4 if erased data was
    found, or if something could not be searched.

    \b
    Examples:
      smoke-lineage audit verify certificate.json
      smoke-lineage audit verify certificate.json --values - < values.txt
    """
    from lineage_cli.output_stream import print_text
    from lineage_cli.progress import progress_line

    given = None if values is None else _lines(values)
    with closing(options.open_home(home, catalog)) as opened, progress_line(verbose=False, quiet=False) as progress:
        verdict = opened.audit.verify(certificate, values=given, progress=progress)
    from lineage_service.audit.erasure.erasure_verification import format_verdict
    from lineage_service.render.json.documents import verdict_document

    print_text(verdict_document(verdict) if as_json else format_verdict(verdict))
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
