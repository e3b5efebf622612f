"""Names of Services and their pods: EndpointSlices, and for containers that are processes, hosts files and DNS."""
