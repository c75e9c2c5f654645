"""Runs keep their workflow as it was read, with the values of its variables, and the rows that their steps gave."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("run_steps", sa.Column("rows", sa.BigInteger))
    op.add_column("runs", sa.Column("content", sa.Text, nullable=False, server_default="{}"))
    # Of older runs only the first of each version is known as it was read.
    op.execute(
        "UPDATE runs SET content = (SELECT w.content FROM workflow_versions w WHERE w.version = runs.workflow_version)"
    )
