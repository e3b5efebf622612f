"""API conventions for all floors: responses and their errors, names, queries, JSON as Go reads it."""
