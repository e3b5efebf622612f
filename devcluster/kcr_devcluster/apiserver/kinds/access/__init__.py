"""The strategies of roles, bindings and certificate signing requests, and the kinds of reviews."""
