"""The tables that `kubectl get` shows: columns and cells of each kind."""
