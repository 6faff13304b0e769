"""The party sides of private runs."""
