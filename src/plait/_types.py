"""The array types that every module shares."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
"""A float64 array; its shape stands in the docstring of whoever takes or returns it."""
