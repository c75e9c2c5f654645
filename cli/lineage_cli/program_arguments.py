"""`run job.py ARGS…`: what stands behind a PySpark program belongs to the program."""

from __future__ import annotations

from typing import Any

import click

SUFFIX = ".py"
ARGUMENTS = "lineage_cli.program_arguments"


class ProgramCommand(click.Command):
    """A command whose options end at the first file that is a program. The rest is kept for the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = self._place_of_program(args)
        if at is not None:
            ctx.meta[ARGUMENTS] = args[at + 1 :]
            args = args[: at + 1]
        return super().parse_args(ctx, args)

    def _place_of_program(self, args: list[str]) -> int | None:
        taking = {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag and not param.count
            for name in (*param.opts, *param.secondary_opts)
        }
        is_value = False
        for index, word in enumerate(args):
            if is_value:
                is_value = False
            elif word.startswith("-") and word != "--":
                is_value = word in taking
            elif word.endswith(SUFFIX):
                return index
            elif word != "--":
                return None
        return None


def arguments_of_program() -> list[str] | None:
    """The arguments of the program that the command runs; None where it runs none."""
    found: Any = click.get_current_context().meta.get(ARGUMENTS)
    return None if found is None else list(found)
