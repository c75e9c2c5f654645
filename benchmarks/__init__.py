"""Experiments that say how fast and how large: `python -m benchmarks NAME`. Figures are in README.md."""
