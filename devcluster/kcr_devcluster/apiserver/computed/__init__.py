"""Kinds whose objects are computed when they are read; nothing of them is stored."""
