"""Layer 1: a workflow file -> its spec, with the place of everything and all problems at once."""
