"""Server-side apply: field sets, managedFields, the field manager, and the handler of the requests.

`fieldpath` has the sets, `typed` and `merge` what the schema makes of values, `field_manager` the decisions: all of
them plain functions over values. `tracking` says when managedFields are kept, `handler` serves the requests.
"""
