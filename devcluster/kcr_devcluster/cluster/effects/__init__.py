"""What has an effect in this cluster, and what has not: tables, and the warnings made of them."""
