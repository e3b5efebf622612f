"""Handling of unhealthy nodes: conditions, taints, and eviction of pods that do not tolerate them."""
