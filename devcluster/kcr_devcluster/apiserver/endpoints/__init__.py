"""Request handlers: routes, bodies, verbs on objects, lists and watches, and serializers."""
