"""Games that try to break the mechanisms."""
