"""Snapshots of live clusters: `taking` reads the objects of controllers, `snapshot_file` is the file."""
