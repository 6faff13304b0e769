"""Training methods, all behind one interface."""
