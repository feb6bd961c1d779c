"""Predictions of the model against published measurements: `python -m benchmarks.accuracy --data DIR`.

A *set* is a file of measured rows. Every row becomes kernel calls of the real kernel library, timed by the device process in
VNPU_MODE=timing on the configuration of the row's chip. Predictions never read the measured column.
"""
