"""A PostgreSQL server for the tests, from the programs that the pip package pgserver carries.

The package's own start is not used: as root it would create a system account and open the permissions of every folder
above its files. Here the server runs as `nobody` then, from a copy of the programs, and leaves nothing behind.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

# The server ends when its standard input does: also where the tests are killed, nothing is left running.
UNTIL_STDIN_ENDS = '"$@" & server=$!; cat >/dev/null; kill -INT $server; wait $server'
SETTINGS = {"listen_addresses": "", "fsync": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


@contextmanager
def postgresql():
    """Gives a function from a database's name to its URL; the server is up inside, and gone with its files after."""
    folder = Path(tempfile.mkdtemp(prefix="smoke-pg-"))
    try:
        programs = Path(importlib.util.find_spec("pgserver").submodule_search_locations[0]) / "pginstall"
        if os.geteuid() == 0:
            programs = _copied(programs, folder)
            shutil.chown(folder, "nobody")
        data = folder / "data"
        _run(programs / "bin" / "initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "tester", "-D", data)
        with _running(programs, data, folder):
            yield lambda database: f"postgresql://tester@/{database}?host={folder}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copied(programs, folder):
    """The programs where `nobody` can read them, with the libraries at the same place beside them."""
    package = programs.parent
    libraries = package.with_name("pgserver.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    unneeded = shutil.ignore_patterns("include", "*.a")
    return Path(shutil.copytree(programs, folder / package.name / programs.name, ignore=unneeded))


def _run(*command):
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, **_unprivileged())
    assert done.returncode == 0, done.stderr


@contextmanager
def _running(programs, data, folder):
    settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    command = [programs / "bin" / "postgres", "-D", data, "-k", folder, *settings]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["sh", "-c", UNTIL_STDIN_ENDS, "sh", *map(str, command)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, **_unprivileged(),
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while "ready" not in _status(data):
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.05)
        yield
    finally:
        server.stdin.close()
        server.wait()


def _status(data):
    try:
        return (data / "postmaster.pid").read_text()
    except FileNotFoundError:
        return ""


def _unprivileged():
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}
