"""What was made for the questions that a workflow declares."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prepared",
        sa.Column("run_id", sa.String(32), sa.ForeignKey("runs.id", name="fk_prepared_run_id"), primary_key=True),
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("path", sa.Text),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("ix_prepared_name", "prepared", ["name"])
