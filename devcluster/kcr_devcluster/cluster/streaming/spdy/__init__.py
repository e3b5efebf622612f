"""SPDY/3.1, the server's side: what kubectl's port-forward needs of it, on any transport of bytes."""
