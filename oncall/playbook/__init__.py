"""Decision trees as data, and the walk through them."""
