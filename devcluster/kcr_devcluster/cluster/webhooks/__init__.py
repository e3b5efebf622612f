"""Calls of webhooks over HTTPS: the connections, and the addresses behind Services."""
