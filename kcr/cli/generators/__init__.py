"""Commands that write manifests: definitions, roles, policies, webhook configurations."""
