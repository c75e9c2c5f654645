"""Persons: which rows are whose (by keyed hash), who was erased; the log of who asked what; open cases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("superseded_by", sa.String(32)))
    op.add_column("runs", sa.Column("held_since", sa.String(32)))
    op.create_table(
        "subject_rows",
        sa.Column(
            "version_id",
            sa.String(32),
            sa.ForeignKey("dataset_versions.id", name="fk_subject_rows_version_id"),
            primary_key=True,
        ),
        sa.Column("kind", sa.String(255), primary_key=True),
        sa.Column("column", sa.String(255), primary_key=True),
        sa.Column("run_id", sa.String(32), nullable=False),
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("persons", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "erasures",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("certificate", sa.Text),
    )
    op.create_table(
        "erased_subjects",
        sa.Column("kind", sa.String(255), primary_key=True),
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column(
            "erasure_id",
            sa.String(32),
            sa.ForeignKey("erasures.id", name="fk_erased_subjects_erasure_id"),
            nullable=False,
        ),
        sa.Column("at", sa.String(32), nullable=False),
    )
    op.create_table(
        "audit_log",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("os_user", sa.Text, nullable=False),
        sa.Column("actor", sa.Text),
        sa.Column("verb", sa.String(64), nullable=False),
        sa.Column("request", sa.Text),
        sa.Column("subjects", sa.Text, nullable=False),
        sa.Column("datasets", sa.Text, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sa.Column("result", sa.Text, nullable=False),
        sa.Column("details", sa.Text, nullable=False),
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "audit_requests",
        sa.Column("reference", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("received", sa.String(32), nullable=False),
        sa.Column("due", sa.String(32), nullable=False),
        sa.Column("verified_by", sa.Text),
        sa.Column("plan_id", sa.String(32)),
        sa.Column("planned_by", sa.Text),
        sa.Column("planned_name", sa.Text),
        sa.Column("four_eyes", sa.Boolean, nullable=False),
        sa.Column("approved_by", sa.Text),
        sa.Column("approved_name", sa.Text),
        sa.Column("approved_at", sa.String(32)),
        sa.Column("reason", sa.Text),
        sa.Column("recipients", sa.Text, nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.Column("seal", sa.String(64), nullable=False),
    )
