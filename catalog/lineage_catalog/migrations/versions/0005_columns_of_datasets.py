"""The columns of a run's datasets: what they are made of, what influences them, which show personal data."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "dataset_columns",
        sa.Column(
            "run_id", sa.String(32), sa.ForeignKey("runs.id", name="fk_dataset_columns_run_id"), primary_key=True
        ),
        sa.Column("dataset", sa.String(255), primary_key=True),
        sa.Column("ordinal", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("pii", sa.Boolean, nullable=False),
        sa.Column("reads", sa.Text),
        sa.Column("influenced_by", sa.Text),
        sa.Column("decided_by", sa.Text),
    )
