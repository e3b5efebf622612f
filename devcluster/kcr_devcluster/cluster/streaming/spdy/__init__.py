"""SPDY/3.1, the server's side: the part that kubectl's port-forward needs, on any transport of bytes."""
