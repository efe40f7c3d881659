"""Streams: what is kept between batches, and how it is saved."""
