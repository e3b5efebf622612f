"""Gates: decide whether a key is reconciled now."""
