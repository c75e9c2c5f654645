"""Lineage follows the commit of the outputs; forms that store nothing; what breakers read, and were expected to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("lineage", sa.String(16), nullable=False, server_default="complete"))
    op.add_column("runs", sa.Column("lineage_note", sa.Text))
    op.add_column("run_steps", sa.Column("estimate", sa.BigInteger))
    op.add_column("run_steps", sa.Column("members", sa.BigInteger))
    op.add_column("hops", sa.Column("body", sa.Text))
