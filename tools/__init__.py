"""Scripts that make what is committed; nothing of the product imports them."""
