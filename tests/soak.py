"""Do tests hold whatever else the machine does? `python -m tests.soak [--times 20] [FILE…]`, or `make soak`.

Runs the files again and again, every second time with all cores kept busy by something else, each time with the tests'
files in another order, and tells how often they passed. By default those whose tests once went by the clock.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

FILES = (
    "tests/audit/erasure/test_erasure_killed.py",
    "tests/doctor/test_doctor.py",
    "tests/catalog/test_postgresql.py",
    "tests/cli/test_cli_formats.py",
    "tests/cli/test_cli_verbs.py",
    "tests/spec/test_spec_yaml_limits.py",
    "tests/capture/test_capture.py",
    "tests/query/test_lookup.py",
)
WORKERS = ("-n", "2", "--dist", "loadfile")  # as `make test` runs them
# Ends with its standard input: also where this program is killed, nothing is left running.
BURN = "import threading, sys, os\nthreading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()\nwhile True: pass"


@contextmanager
def busy(cores: int) -> Iterator[None]:
    """Keeps so many cores busy."""
    burning = [subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE) for _ in range(cores)]
    try:
        yield
    finally:
        for process in burning:
            process.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("-m", dest="marks", default="not slow", help="which tests, as for pytest")
    given = parser.parse_args()
    chance, failed = random.Random(0), {False: 0, True: 0}
    for number in range(given.times):
        occupied = number % 2 == 1
        files = chance.sample(list(given.files), len(given.files))
        began = time.monotonic()
        with busy((os.cpu_count() or 1) if occupied else 0):
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WORKERS, "-m", given.marks, *files],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        failed[occupied] += done.returncode != 0
        last = (done.stdout.strip().splitlines() or [""])[-1]
        print(
            f"{number + 1:3d} {'busy ' if occupied else 'quiet'} {time.monotonic() - began:6.0f} s  {last}", flush=True
        )
        if done.returncode != 0:
            print(done.stdout, flush=True)
    quiet, occupied_times = (given.times + 1) // 2, given.times // 2
    print(
        f"quiet: {quiet - failed[False]} of {quiet} passed; busy: {occupied_times - failed[True]} of {occupied_times}"
    )
    return 1 if any(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
