"""Programs that do odd things: each gives the same files with us as without, and is told where its lineage ends."""
