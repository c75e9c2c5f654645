"""The catalog's tables, in SQLAlchemy Core: the same on SQLite and PostgreSQL.

What a run read and wrote, and the lineage between: visible in one transaction, and then never changed.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

workflow_versions = Table(
    "workflow_versions",
    metadata,
    Column("version", String(64), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("content", Text, nullable=False),  # the workflow as JSON, as the first run of the version read it
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("workflow", String(255), nullable=False),
    Column("workflow_version", ForeignKey("workflow_versions.version"), nullable=False),
    Column("status", String(16), nullable=False),
    Column("capture", String(16), nullable=False),
    Column("variables", Text, nullable=False),
    Column("content", Text, nullable=False, server_default="{}"),  # the workflow as this run read it
    Column("report", Text, nullable=False),  # the object that `run --json` prints
    Column("started_at", String(32), nullable=False),
    Column("committed_at", String(32), nullable=False),
    Column("lineage", String(16), nullable=False, server_default="complete"),  # pending, incomplete, complete
    Column("lineage_note", Text),  # why it is not complete
    Column("ordinal", Integer, nullable=False, unique=True),  # order of commits: clocks are not to be trusted
    Index("ix_runs_workflow_ordinal", "workflow", "ordinal"),
)

run_steps = Table(
    "run_steps",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("node", String(255), primary_key=True),
    Column("operator", String(32), nullable=False),
    Column("strategy", String(16)),
    Column("reason", Text),
    Column("rows", BigInteger),  # that the step gave, where they were counted
    Column("estimate", BigInteger),  # rows that a breaker was expected to read
    Column("members", BigInteger),  # rows that it read
)

dataset_versions = Table(
    "dataset_versions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("run_id", String(32), nullable=False),  # that first saw or made it
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("body", Text, nullable=False),  # files, columns, gaps
)

run_datasets = Table(
    "run_datasets",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("workflow", String(255), nullable=False),
    Column("role", String(16), nullable=False),  # source, output, step
    Column("space", String(255), nullable=False),
    Column("version_id", ForeignKey("dataset_versions.id"), nullable=False, index=True),
    Column("declared", Text, nullable=False),  # what the file says of it: subject, pii, legal hold, path
    Index("ix_run_datasets_name", "name"),
)

dataset_columns = Table(
    "dataset_columns",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("dataset", String(255), primary_key=True),  # its name in the run
    Column("ordinal", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),  # in Spark's words
    Column("pii", Boolean, nullable=False),  # declared, or carried here from where it was
    Column("reads", Text),  # JSON: [[source, column], …] of the same run; null where nobody knows
    Column("influenced_by", Text),  # likewise
    Column("decided_by", Text),  # JSON of a min or max: {dataset: the column whose value decides it}
)

hops = Table(
    "hops",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("from_space", String(255), nullable=False),
    Column("to_space", String(255), nullable=False),
    Column("role", Integer, nullable=False),
    Column("form", String(16), nullable=False),  # pairs, column, formula, keyed, lazy, constant, everything, empty
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("backward", Text),
    Column("forward", Text),
    Column("body", Text),  # JSON: what the forms that have no files of their own are computed from
)

prepared = Table(
    "prepared",
    metadata,
    Column("run_id", ForeignKey("runs.id"), primary_key=True),
    Column("name", String(255), primary_key=True),  # of the declared question
    Column("kind", String(16), nullable=False),  # pairs, selection, rows, groups, witnesses
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("path", Text),
    Column("body", Text, nullable=False),  # JSON: the question, and what the columns of the file are
    Index("ix_prepared_name", "name"),
)

HEAD = "0005"
