"""Libraries that plait can do without: a test that uses one is skipped, with the reason, where it is absent."""

from typing import Any

import pytest


class Extra:
    """A module that is imported when a test first uses it."""

    def __init__(self, module: str, install: str) -> None:
        self._module, self._reason = module, f"{module} is not here: pip install {install}"

    def __getattr__(self, name: str) -> Any:
        return getattr(pytest.importorskip(self._module, reason=self._reason), name)


arrow = Extra("pyarrow", "'plait[parquet]'")
dataset = Extra("pyarrow.dataset", "'plait[parquet]'")
feather = Extra("pyarrow.feather", "'plait[parquet]'")
parquet = Extra("pyarrow.parquet", "'plait[parquet]'")
polars = Extra("polars", "polars")
