"""Reading, checking and preparing data."""
