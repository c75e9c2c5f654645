"""The verbs of `smoke-lineage audit`, one file each."""
