"""Resource usage of containers' processes: CPU and memory."""
