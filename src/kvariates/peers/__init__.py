"""A coordinator and peers: each peer holds a part of the rows and answers questions about it."""
