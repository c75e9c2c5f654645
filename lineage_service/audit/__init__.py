"""Requests of persons: access to the data held about them, erasure, rectification, and proof of each."""
