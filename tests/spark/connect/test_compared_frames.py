"""Compiled data frames against Spark: names, types, rows and their order, in one Connect session."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.spark


def test_frames_are_what_spark_gives():
    environment = {**os.environ, "SPARK_TESTING": "1", "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.spark.connect.compared_frames"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    result = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    assert result is not None, done.stderr[-3000:]
    found = json.loads(result.removeprefix("RESULT"))
    assert len(found) >= 45
    assert {name: each for name, each in found.items() if each is not None} == {}
