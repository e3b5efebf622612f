"""Frozen values on the wire: metadata of all objects, and the kinds that kcr reads."""
