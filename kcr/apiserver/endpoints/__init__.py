"""What a request asks for: routes, bodies, verbs on objects, lists and watches, and the forms of the response."""
