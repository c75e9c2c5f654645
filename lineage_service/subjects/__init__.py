"""Persons in the data: who a row is about, by a hash that only the holder of the key can make."""
