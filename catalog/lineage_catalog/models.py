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
    Column("ordinal", Integer, nullable=False, unique=True),  # order of commits, because clocks are unreliable
    Column("superseded_by", String(32)),  # the run by which an erasure replaced it; all else was removed
    Column("held_since", String(32)),  # when its data was first committed, if it replaces an earlier run
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
    Column("rows", BigInteger),  # rows the step returned, if they were counted
    Column("estimate", BigInteger),  # rows that a breaker was expected to read
    Column("members", BigInteger),  # rows that it read
)

dataset_versions = Table(
    "dataset_versions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("run_id", String(32), nullable=False),  # the run that first read or made it
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
    Column("type", Text, nullable=False),  # as Spark names it
    Column("pii", Boolean, nullable=False),  # declared, or derived from a declared column
    Column("reads", Text),  # JSON: [[source, column], …] of the same run; null if unknown
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

run_files = Table(
    "run_files",
    metadata,
    # The run whose folder has the file. Not a foreign key: another run may share the file after this one is removed.
    Column("run_id", String(32), primary_key=True),
    Column("path", Text, primary_key=True),  # in that folder
    Column("sums", Text, nullable=False),  # JSON: checksums of its parts, which together are all its bytes
)

subject_rows = Table(
    "subject_rows",
    metadata,
    Column("version_id", ForeignKey("dataset_versions.id"), primary_key=True),
    Column("kind", String(255), primary_key=True),  # of person
    Column("column", String(255), primary_key=True),  # the source's column that identifies one
    Column("run_id", String(32), nullable=False),  # the run whose folder has the files
    Column("key_id", String(32), nullable=False),  # which key the hashes were made with
    Column("persons", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("body", Text, nullable=False),  # JSON: the files, in layers; a refresh adds one
)

erasures = Table(
    "erasures",
    metadata,
    Column("id", String(32), primary_key=True),  # of the plan
    Column("kind", String(16), nullable=False),  # erasure, rectification
    Column("state", String(16), nullable=False),  # switched: old bytes are still to be removed; done
    Column("at", String(32), nullable=False),
    Column("body", Text, nullable=False),  # JSON: what is left to be done; names, counts and hashes only
    Column("certificate", Text),  # JSON, once done
)

erased_subjects = Table(
    "erased_subjects",
    metadata,
    Column("kind", String(255), primary_key=True),
    Column("hash", String(64), primary_key=True),  # keyed
    Column("key_id", String(32), nullable=False),
    Column("erasure_id", ForeignKey("erasures.id"), nullable=False),
    Column("at", String(32), nullable=False),
)

audit_log = Table(
    "audit_log",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, 3, …: a gap is a removed entry
    Column("at", String(32), nullable=False),
    Column("os_user", Text, nullable=False),
    Column("actor", Text),  # the name given by --actor
    Column("verb", String(64), nullable=False),
    Column("request", Text),  # reference of the case
    Column("subjects", Text, nullable=False),  # JSON: keyed hashes by kind
    Column("datasets", Text, nullable=False),  # JSON
    Column("counts", Text, nullable=False),  # JSON
    Column("result", Text, nullable=False),
    Column("details", Text, nullable=False),  # JSON
    Column("key_id", String(32), nullable=False),  # which key the hash was made with
    Column("previous", String(64), nullable=False),  # hash of the entry before
    Column("hash", String(64), nullable=False),  # keyed, over all of the above
)

audit_requests = Table(
    "audit_requests",
    metadata,
    Column("reference", String(255), primary_key=True),
    Column("kind", String(32), nullable=False),  # access, erasure, rectification
    Column("status", String(16), nullable=False),  # open, planned, approved, done, refused
    Column("received", String(32), nullable=False),
    Column("due", String(32), nullable=False),
    Column("verified_by", Text),  # who verified the identity of the person
    Column("plan_id", String(32)),
    Column("planned_by", Text),  # operating system user
    Column("planned_name", Text),  # the name given by --actor
    Column("four_eyes", Boolean, nullable=False),
    Column("approved_by", Text),
    Column("approved_name", Text),
    Column("approved_at", String(32)),
    Column("reason", Text),  # of a refusal
    Column("recipients", Text, nullable=False),  # JSON: to be notified (Art. 19)
    Column("updated_at", String(32), nullable=False),
    Column("seal", String(64), nullable=False),  # keyed hash over all of the above
)

seals = Table(
    "seals",
    metadata,
    Column("scope", String(80), primary_key=True),  # which records: seals.py
    Column("digest", String(64), nullable=False),  # over them all
)

HEAD = "0007"
