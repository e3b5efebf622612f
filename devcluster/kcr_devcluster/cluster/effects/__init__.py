"""Fields with and without an effect in this cluster: tables, and the warnings derived from them."""
