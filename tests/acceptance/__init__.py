"""Acceptance tests: the chip from outside. A package, so that its conftest is not mistaken for that of other test folders."""
