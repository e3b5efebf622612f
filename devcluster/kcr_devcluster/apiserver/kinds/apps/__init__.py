"""The kinds of group apps, and ReplicationControllers."""
