"""Writes of whole objects: metadata, creation, update and deletion, the same for all kinds."""
