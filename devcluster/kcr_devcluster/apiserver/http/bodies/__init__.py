"""Bodies of requests: decoded, checked for unknown fields, and made objects of their kind."""
