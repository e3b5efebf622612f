"""What happens around nodes that are not well: conditions, taints, and eviction of pods that do not tolerate them."""
