"""Alembic's entry: runs the migrations over the catalog's own connection settings."""

from __future__ import annotations

from alembic import context

from lineage_catalog.engine import connect
from lineage_catalog.models import HEAD, metadata
from lineage_catalog.seals import seal_missing

url = context.config.attributes.get("url") or context.config.get_main_option("sqlalchemy.url")
engine = connect(str(url)).execution_options(writing=True)
try:
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
        with context.begin_transaction():
            context.run_migrations()
            if context.get_context().get_current_revision() == HEAD:
                seal_missing(connection)
        connection.commit()
finally:
    engine.dispose()
