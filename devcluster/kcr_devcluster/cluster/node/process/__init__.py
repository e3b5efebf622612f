"""Containers as processes of this machine: their environment, mounts, streams and ends."""
