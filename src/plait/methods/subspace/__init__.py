"""The default method: minimise over the span of the directions that the parties send."""
