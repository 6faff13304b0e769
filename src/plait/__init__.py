"""plait trains one model over columns that never leave their owners."""

from plait._version import __version__
from plait.errors import PlaitError

__all__ = ["PlaitError", "__version__"]
