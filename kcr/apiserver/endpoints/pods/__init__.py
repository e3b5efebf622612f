"""Subresources of pods that reach their containers: logs, and connections into them."""
