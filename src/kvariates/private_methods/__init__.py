"""The private methods, built from the loops of other rooms and the releases of `privacy`."""
