"""Table printers: the columns and cells of `kubectl get`."""
