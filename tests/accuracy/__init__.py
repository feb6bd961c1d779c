"""Tests of the accuracy harness."""
