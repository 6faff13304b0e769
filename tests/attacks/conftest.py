"""Attacks on deployed parties use the jobs of the end-to-end tests."""

from tests.e2e.conftest import jobs

__all__ = ["jobs"]
