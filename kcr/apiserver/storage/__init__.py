"""Versioned objects in memory, with a history per kind for watches, and the selectors that read them."""
