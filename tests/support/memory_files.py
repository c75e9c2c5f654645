"""Temporary files of tests in memory, where the machine has a file system there (Linux: /dev/shm)."""

import os
import shutil
import tempfile
from pathlib import Path

FOLDER = Path("/dev/shm")
NEEDED = 6 << 30  # bytes: about ten times what a whole run leaves behind


def use_memory_for_files() -> None:
    """Temporary files of this process and of those that it starts are kept in memory, unless TMPDIR says where."""
    if "TMPDIR" in os.environ or not _is_usable():
        return
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = str(FOLDER)
    tempfile.tempdir = None  # is asked for anew


def _is_usable() -> bool:
    return FOLDER.is_dir() and os.access(FOLDER, os.W_OK) and shutil.disk_usage(FOLDER).free >= NEEDED
