"""What distance means."""
