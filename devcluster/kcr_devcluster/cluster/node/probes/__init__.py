"""Probes and lifecycle hooks of containers, as the kubelet runs them."""
