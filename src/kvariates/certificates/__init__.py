"""Lower bounds on the cost of the best k medoids, and of the best k centres."""
