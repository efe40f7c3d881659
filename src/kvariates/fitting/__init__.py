"""The fits: seed, refine, keep the best run."""
