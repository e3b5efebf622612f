"""The strategies of Ingresses, IngressClasses, NetworkPolicies and EndpointSlices."""
