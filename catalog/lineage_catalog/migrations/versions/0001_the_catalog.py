"""The catalog: workflow versions, runs, steps, dataset versions, datasets of runs, hops."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "workflow_versions",
        sa.Column("version", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("workflow", sa.String(255), nullable=False),
        sa.Column("workflow_version", sa.String(64), sa.ForeignKey("workflow_versions.version"), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("capture", sa.String(16), nullable=False),
        sa.Column("variables", sa.Text, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
        sa.Column("started_at", sa.String(32), nullable=False),
        sa.Column("committed_at", sa.String(32), nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False, unique=True),
    )
    op.create_index("ix_runs_workflow_ordinal", "runs", ["workflow", "ordinal"])
    op.create_table(
        "run_steps",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("node", sa.String(255), primary_key=True),
        sa.Column("operator", sa.String(32), nullable=False),
        sa.Column("strategy", sa.String(16)),
        sa.Column("reason", sa.Text),
    )
    op.create_table(
        "dataset_versions",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "run_datasets",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("workflow", sa.String(255), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("space", sa.String(255), nullable=False),
        sa.Column("version_id", sa.String(32), sa.ForeignKey("dataset_versions.id"), nullable=False),
        sa.Column("declared", sa.Text, nullable=False),
    )
    op.create_index("ix_run_datasets_name", "run_datasets", ["name"])
    op.create_index("ix_run_datasets_version_id", "run_datasets", ["version_id"])
    op.create_table(
        "hops",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("ordinal", sa.Integer, primary_key=True),
        sa.Column("from_space", sa.String(255), nullable=False),
        sa.Column("to_space", sa.String(255), nullable=False),
        sa.Column("role", sa.Integer, nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("backward", sa.Text),
        sa.Column("forward", sa.Text),
    )


def downgrade() -> None:
    for table in ("hops", "run_datasets", "dataset_versions", "run_steps", "runs", "workflow_versions"):
        op.drop_table(table)
