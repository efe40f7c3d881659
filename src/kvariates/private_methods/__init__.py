"""The private methods: each a composition of the loops below with `privacy`'s noise."""
