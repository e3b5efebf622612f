"""What the API's conventions say to every floor: responses and their errors, names, queries, JSON as Go reads it."""
