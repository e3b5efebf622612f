"""Subresources of pods: binding, eviction, logs, and connections into containers."""
