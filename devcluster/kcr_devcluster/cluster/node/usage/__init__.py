"""What the processes of containers use: CPU and memory."""
