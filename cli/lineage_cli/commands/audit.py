"""`smoke-lineage audit`: a table of its verbs, each loaded only when it is used."""

from __future__ import annotations

from importlib import import_module

import click

# verb: its line in --help; its command is in audit_verbs/<verb>.py
AUDIT_VERBS: dict[str, str] = {
    "access": "Tell a person what is held about them and what was derived from it.",
    "plan-erasure": "Find out what erasing a person would do, everywhere.",
    "plan-rectification": "Find out what correcting a person's values would do, everywhere.",
    "apply": "Carry out a plan: just that, or nothing.",
    "verify": "Scan anew for what was erased, and say whether it holds.",
    "log": "Show who asked what, when, with what result; verify that the log is whole.",
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
        """As click does it, but an unknown verb is answered with the closest known one."""
        name = args[0]
        if not name.startswith("-") and name not in AUDIT_VERBS:
            import difflib

            close = difflib.get_close_matches(name, AUDIT_VERBS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" Verbs: {', '.join(AUDIT_VERBS)}."
            ctx.fail(f"No such verb 'audit {name}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The list of verbs, from the table alone."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(AUDIT_VERBS.items()))


@click.group("audit", cls=AuditGroup, subcommand_metavar="VERB [OPTIONS] …")
def command() -> None:
    """Answer a person's request: what is held about them and derived from it, erase or correct it
    everywhere, and prove it. `smoke-lineage audit VERB --help` explains each verb.

    \b
    Example:
      smoke-lineage audit access --subject customer=42 --html answer.html
    """
