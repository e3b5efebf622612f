"""The storage: versioned objects in memory, a watch cache per kind, label and field selectors."""
