"""Pods that do not start, do not become ready or have failed: the cause, and the remedy."""
