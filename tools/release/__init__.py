"""A release: its version, its files, and their papers."""
