"""`smoke-lineage demo`."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import chdir
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lineage_cli.options import home_options

if TYPE_CHECKING:
    from lineage_cli.demo.story import Scene

MARK = ".smoke-demo"


@click.command("demo")
@click.argument("folder", metavar="[DIR]", default="smoke-demo", type=click.Path(path_type=Path))
@home_options
def command(folder: Path, home: str | None, catalog: str | None) -> None:
    """Make sample data in DIR, run workflows over it, and show what lineage answers: the records behind a
    number that looks wrong, and everything that depends on one person. [default DIR: smoke-demo]

    Takes about a minute. Every command is shown and can be repeated in DIR.

    \b
    Example:
      smoke-lineage demo
    """
    from lineage_cli.demo.data import FLIGHTS, has_flights
    from lineage_cli.demo.story import FLIGHTS as FLIGHTS_STORY
    from lineage_cli.demo.story import SHOP

    target = _prepare_folder(folder)
    with_flights = has_flights()
    _make_data(target, with_flights=with_flights)
    scenes = [*(FLIGHTS_STORY if with_flights else ()), *SHOP]
    if not with_flights:
        click.echo(
            f'note: the flights need the package {FLIGHTS}: pip install "smoke-lineage[demo]"; only the shop is shown',
            err=True,
        )
    words = [word for name, value in (("--home", home), ("--catalog", catalog)) if value for word in (name, value)]
    if home:
        words[1] = str(Path(home).absolute())
    for number, scene in enumerate(scenes, start=1):
        _play(scene, f"{number}/{len(scenes)}", target, words)
    _say_goodbye(folder, words)


def _prepare_folder(folder: Path) -> Path:
    """Creates the folder. One that an earlier demo made is replaced."""
    from lineage_service.errors import StoreError

    target = folder.absolute()
    try:
        if target.exists() and not target.is_dir():
            raise StoreError(f"cannot make the demo in '{folder}': a file is there")
        if target.is_dir() and any(target.iterdir()):
            if not (target / MARK).is_file():
                raise StoreError(
                    f"cannot make the demo in '{folder}': the folder is not empty",
                    hint="name another: smoke-lineage demo DIR",
                )
            shutil.rmtree(target)
        target.mkdir(parents=True, exist_ok=True)
        (target / MARK).write_text("made by `smoke-lineage demo`, which replaces this folder when it is run again\n")
        return target
    except OSError as error:
        raise StoreError(f"cannot make the demo in '{folder}': {(error.strerror or 'it fails').lower()}") from error


def _make_data(target: Path, *, with_flights: bool) -> None:
    from lineage_cli.demo.data import make_flights, make_shop
    from lineage_cli.progress import waiting_line

    with waiting_line("making data"):
        make_shop(target / "data" / "shop")
        if with_flights:
            make_flights(target / "data")
    for each in files("lineage_cli.demo").joinpath("project").iterdir():
        if with_flights or each.name != "flights.yml":
            (target / each.name).write_bytes(each.read_bytes())


def _play(scene: Scene, number: str, target: Path, words: list[str]) -> None:
    """Prints the scene and runs its command in the demo's folder, exactly as shown."""
    from lineage_cli.main import PROGRAM, cli

    title = click.style(f"{number}  {scene.words}", bold=True)
    click.echo(f"\n{title}\n\n{_command_line(scene.command, words)}", color=_in_colour())
    with chdir(target), _DemoHome(words):
        cli.main([*shlex.split(scene.command), *words], prog_name=PROGRAM, standalone_mode=False)


def _command_line(command: str, words: list[str]) -> str:
    """Returns the command line, with the options that name the home."""
    from lineage_cli.main import PROGRAM

    return " ".join(["$", PROGRAM, command, *([shlex.join(words)] if words else [])])


class _DemoHome:
    """Makes the demo use its own home: one that SMOKE_HOME names belongs to other work."""

    def __init__(self, words: list[str]) -> None:
        self._given = "--home" in words

    def __enter__(self) -> None:
        self._kept = None if self._given else os.environ.pop("SMOKE_HOME", None)
        if not self._given:
            Path(".smoke").mkdir(exist_ok=True)  # otherwise a home in a folder above would be used

    def __exit__(self, *_: object) -> None:
        if self._kept is not None:
            os.environ["SMOKE_HOME"] = self._kept


def _in_colour() -> bool | None:
    from lineage_cli.tables import in_colour

    return None if in_colour() else False


def _say_goodbye(folder: Path, words: list[str]) -> None:
    unset = "" if "--home" in words or not os.environ.get("SMOKE_HOME") else "unset SMOKE_HOME && "
    commands = ("graph --all --out graph.html", "trace ranked --rid 0 --out trace.html")
    click.echo(
        f"\nEverything is in {folder}. Continue there:\n\n"
        f"$ {unset}cd {shlex.quote(str(folder))}\n" + "\n".join(_command_line(each, words) for each in commands)
    )
