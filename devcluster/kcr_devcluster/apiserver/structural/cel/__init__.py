"""The Common Expression Language, as validation rules use it.

Google's library compiles and evaluates `expressions`, with the `functions` of Kubernetes, on `values` of custom
resources; `analysis` and `costs` find errors in an expression that the library does not find.
"""
