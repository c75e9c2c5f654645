"""The verbs of `smoke-lineage import`, one file each."""
