"""Checksums of the files of runs, and seals over the catalog's own records; env.py seals what is there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_files",
        sa.Column("run_id", sa.String(32), primary_key=True),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("sums", sa.Text, nullable=False),
    )
    op.create_table(
        "seals",
        sa.Column("scope", sa.String(80), primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
    )
