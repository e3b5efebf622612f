"""Server-side apply: field sets, managedFields, and the field manager.

`fieldpath` has the sets, `typed` and `merge` apply the schema to values, `field_manager` decides: all of them are
plain functions over values. `tracking` says when managedFields are kept; `http.apply` serves the requests.
"""
