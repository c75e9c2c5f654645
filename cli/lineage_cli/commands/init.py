"""`smoke-lineage init`."""

from __future__ import annotations

from pathlib import Path

import click

from lineage_cli.options import unused_home_options
from lineage_service.render.safe_text import escape_line


@click.command("init")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path, readable=False))
@click.option("--name", metavar="NAME", help="The workflow's name. [default: bakery]")
@unused_home_options
def command(folder: Path, name: str | None, home: str | None, catalog: str | None) -> None:  # noqa: ARG001 - every verb
    """Make a small project to start from: a workflow that runs, its data, a README.

    DIR is the current folder unless given; it is created if it does not exist.
    Existing files are never overwritten.

    \b
    Example:
      smoke-lineage init my_project
    """
    from lineage_cli.output_stream import print_text
    from lineage_service.starter import DEFAULT_NAME, make_project

    name = name or DEFAULT_NAME
    made = make_project(folder, name)
    width = max(len(each.path) for each in made)
    lines = [f"{each.path:{width}}  {each.what}" for each in made]
    text_lines = [f"made in {_folder_text(folder)}:", *_indent(lines), "", "next:", *_next_commands(folder, name)]
    print_text("\n".join(escape_line(line) for line in text_lines))


def _next_commands(folder: Path, name: str) -> list[str]:
    """Returns the commands to type next. They change to the folder first, so that the home lies inside the project."""
    import shlex

    commands = [f"smoke-lineage {rest}" for rest in (f"validate {name}.yml", f"run {name}.yml", "rows bills")]
    here = folder.resolve() == Path.cwd()
    return _indent(commands if here else [f"cd {shlex.quote(str(folder))}", *commands])


def _folder_text(folder: Path) -> str:
    return "this folder" if folder.resolve() == Path.cwd() else str(folder)


def _indent(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
