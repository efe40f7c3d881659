"""Lower bounds on the cost of the best k medoids."""
