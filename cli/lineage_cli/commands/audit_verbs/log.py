"""`smoke-lineage audit log`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_cli import options
from lineage_cli.case_options import actor_option
from lineage_cli.messages import tell
from lineage_cli.options import Count, Output, home_options, limit_option, output_options

if TYPE_CHECKING:
    from lineage_service.audit.log.log_verification import LogVerdict, Range
    from lineage_service.home import Home
    from lineage_service.query.answer import Answer

ANSWER_IS_NO = 4


@click.command("log")
@click.option("--verify", is_flag=True, help="Verify that the log is intact; exit code 4 if it is not.")
@click.option(
    "--anchors",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --verify: compare with the anchors in this file, a copy that was kept elsewhere.",
)
@click.option("--head", is_flag=True, help="Print only the number and hash of the last entry.")
@click.option("--request", metavar="REF", help="Only entries of this case.")
@click.option("--verb", metavar="VERB", help="Only entries of this verb: access, approve, reveal, …")
@click.option(
    "--retain-days", type=Count(), help="Remove entries and closed cases older than N days. The removal is logged."
)
@actor_option
@limit_option
@output_options
@home_options
def command(
    verify: bool,
    anchors: Path | None,
    head: bool,
    request: str | None,
    verb: str | None,
    retain_days: int | None,
    actor: str | None,
    limit: int | None,
    output: Output,
    home: str | None,
    catalog: str | None,
) -> None:
    """Show who asked what, when, and with what result; newest first.

    Entries form a chain of keyed hashes. The hash of the newest entry is also written to an anchor file beside the
    log, and to a URL or a syslog if SMOKE_ANCHOR_URL or SMOKE_ANCHOR_SYSLOG names one. --verify finds entries that
    were changed, removed or reordered, also at the end of the log.

    \b
    Examples:
      smoke-lineage audit log --limit 20
      smoke-lineage audit log --request DSR-2026-17
      smoke-lineage audit log --verify
    """
    picks = request is not None or verb is not None or limit is not None
    _refuse_mixtures(verify, anchors, head, retain_days, picks, output)
    if verify or head or retain_days is not None:
        with closing(options.open_home(home, catalog)) as opened:
            if verify:
                _verify(opened, anchors, output)
            elif head:
                from lineage_service.render.json.documents import log_head_document

                found = opened.audit.log_head()
                _print(output, log_head_document(found), f"{found['number']} {found['hash'] or ''}".strip())
            elif retain_days is not None:
                _retain(opened, retain_days, actor, output)
        return
    from lineage_cli.answer_output import write_answer
    from lineage_cli.home_question import ask_home
    from lineage_cli.listings import LOG, fit_listing

    def question(opened: Home) -> Answer:
        return opened.audit.log(request=request, verb=verb, limit=output.limit(limit))

    with ask_home(home, catalog, question) as answer:
        write_answer(fit_listing(answer, LOG, output), output)


def _refuse_mixtures(
    verify: bool, anchors: Path | None, head: bool, retain_days: int | None, picks: bool, output: Output
) -> None:
    asked = [
        name
        for name, given in (("--verify", verify), ("--head", head), ("--retain-days", retain_days is not None))
        if given
    ]
    if len(asked) > 1:
        raise click.UsageError(f"{' and '.join(asked)} cannot be combined.")
    if anchors is not None and not verify:
        raise click.UsageError("--anchors needs --verify.")
    if asked and picks:
        raise click.UsageError(
            f"{asked[0]} concerns the whole log: it cannot be combined with --request, --verb or --limit."
        )
    if asked and output.format not in ("table", "json"):
        raise click.UsageError(f"{asked[0]} supports only text and --json.")


def _verify(opened: Home, anchors: Path | None, output: Output) -> None:
    from lineage_cli.progress import waiting_line
    from lineage_service.render.json.documents import verdict_document

    with waiting_line("verifying the log"):
        verdict = opened.audit.verify_log(anchors)
    _print(output, verdict_document(verdict), _verdict_text(verdict))
    if not verdict.ok:
        click.get_current_context().exit(ANSWER_IS_NO)


def _verdict_text(verdict: LogVerdict) -> str:
    lines = ["the log is empty"]
    if verdict.first is not None and verdict.last is not None:
        lines = [f"entries:       {_range((verdict.first, verdict.last))}", f"head:          {verdict.head}"]
    if verdict.removed:
        lines.append(f"removed:       {_range((1, verdict.removed))} by retention")
    if verdict.anchored:
        lines.append(f"anchored:      {', '.join(map(_range, verdict.anchored))}")
    if verdict.unanchored:
        lines.append(f"not anchored:  {', '.join(map(_range, verdict.unanchored))}")
    lines += [f"note: {note}" for note in verdict.notes]
    lines += [f"problem: {problem}" for problem in verdict.problems]
    return "\n".join([*lines, "the log is intact" if verdict.ok else "the log is not intact, or cannot be trusted"])


def _range(numbers: Range) -> str:
    first, last = numbers
    return str(first) if first == last else f"{first}…{last}"


def _retain(opened: Home, days: int, actor: str | None, output: Output) -> None:
    from lineage_service.render.json.documents import log_retention_document

    result = opened.audit.retain_log(days, actor=actor)
    text = f"removed {result.entries:,} {'entry' if result.entries == 1 else 'entries'}"
    text += f" and {result.cases:,} closed {'case' if result.cases == 1 else 'cases'}"
    _print(output, log_retention_document(result), text)
    for note in result.notes:
        tell(f"note: {note}")


def _print(output: Output, document: str, text: str) -> None:
    from lineage_cli.output_stream import open_output

    with open_output(output.out) as stream:
        stream.write_text(document if output.format == "json" else f"{text}\n")
