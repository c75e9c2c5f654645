"""Persons in the data: which person a row is about, as a hash that only the holder of the key can compute."""
