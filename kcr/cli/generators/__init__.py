"""Commands that write files: definitions, roles, classes."""
