"""Transports between a client and its server that inject faults, or crash the client's process."""
