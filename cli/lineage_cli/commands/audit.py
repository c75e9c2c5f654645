"""`smoke-lineage audit`: the table of its verbs. A verb's module is imported when the verb is called."""

from __future__ import annotations

from importlib import import_module

import click

# verb: its line in --help; its command is in audit_verbs/<verb>.py
AUDIT_VERBS: dict[str, str] = {
    "access": "Report what is held about a person and what was derived from it.",
    "plan-erasure": "Plan the erasure of a person: what would change in every dataset.",
    "plan-rectification": "Plan a correction of a person's data: what would change in every dataset.",
    "apply": "Carry out a plan exactly as it is, or not at all.",
    "verify": "Search all files for data that was erased, and report whether any is left.",
    "log": "Show who asked what, when, and with what result; verify that the log is intact.",
    "requests": "List open cases by due date.",
    "approve": "Approve the plan of a case.",
    "refuse": "Refuse a case, with the reason.",
    "record": "Write the record of processing from the workflow files.",
}


class AuditGroup(click.Group):
    """A group that imports a verb's module only when that verb is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """The verbs, in the order of the table."""
        return list(AUDIT_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The verb's command."""
        if cmd_name not in AUDIT_VERBS:
            return None
        command = import_module(f"lineage_cli.commands.audit_verbs.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's, but suggests the closest verb if the verb is unknown."""
        name = args[0]
        if not name.startswith("-") and name not in AUDIT_VERBS:
            import difflib

            close = difflib.get_close_matches(name, AUDIT_VERBS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" Verbs: {', '.join(AUDIT_VERBS)}."
            ctx.fail(f"No such verb 'audit {name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(AUDIT_VERBS.items()))


@click.group("audit", cls=AuditGroup, subcommand_metavar="VERB [OPTIONS] …")
def command() -> None:
    """Answer the request of a person: report what is held about them and derived from it, erase or correct
    it everywhere, and prove it. `smoke-lineage audit VERB --help` explains each verb.

    \b
    Example:
      smoke-lineage audit access --subject customer=42 --html answer.html
    """
