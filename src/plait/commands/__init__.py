"""The commands of `plait`, one module per group; each parses, builds the object and calls it."""
