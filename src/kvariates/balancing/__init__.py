"""Anti-clustering: groups that are as alike as possible."""
