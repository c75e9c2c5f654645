"""Programs as people write them. They know nothing of lineage: each is run as it is, with and without us."""
