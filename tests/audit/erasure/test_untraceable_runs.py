"""Runs that an erasure cannot compute again: named with the reason, so that `--drop-runs` can remove them."""

import pyarrow as pa
import pytest

from lineage_service.audit.erasure.untraceable_runs import untraceable_reason
from lineage_service.store.home_key import home_key
from tests.support.made_runs import Made, MadeHome


@pytest.mark.parametrize(("value", "reason"), [(None, "which is not set"), ("other", "is not what it was when run")])
def test_a_run_whose_environment_is_lost(tmp_path, monkeypatch, value, reason):
    made = MadeHome(tmp_path / "home")
    spec = {"version": 1, "name": "w", "sources": {}, "steps": [], "outputs": {}}
    rows = pa.table({"n": [1]})
    datasets = {"s": Made(rows, "source"), "o": Made(rows, hops={"s": [(0, 0)]})}
    plain = made.run("plain", datasets, spec=spec)
    with made.home as home:
        key = home_key(home.layout)
    digest = key.seal(b"environment 6:SECRET:then")
    lost = made.run("lost", datasets, spec=spec | {"environment": {"SECRET": digest}})
    monkeypatch.delenv("SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("SECRET", value)
    with made.home as home:
        ask = home._open.questions
        runs = {run.id: run for run in ask.reader.runs()}
        assert untraceable_reason(ask, runs[plain]) is None
        assert reason in (untraceable_reason(ask, runs[lost]) or "")
        monkeypatch.setenv("SECRET", "then")
        assert untraceable_reason(ask, runs[lost]) is None
