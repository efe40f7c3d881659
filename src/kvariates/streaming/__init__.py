"""What happens between the batches of a stream."""
