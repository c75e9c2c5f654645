"""Layer 1: a workflow file to its spec, with the position of every part and all problems at once."""
