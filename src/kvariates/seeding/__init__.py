"""Where the first k centres come from."""
