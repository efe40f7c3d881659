"""The side of a hospital. Replace `load_data` by a function that reads your own table."""

import numpy as np

from hospitals import BOUNDS
from kvariates.federated import client_app


def load_data(context):
    """Fake patients: three groups, in other proportions at each hospital."""
    number = int(context.node_config.get("partition-id", 0))
    rng = np.random.default_rng(number)
    groups = np.array([[25.0, 110.0], [50.0, 130.0], [75.0, 160.0]])
    chosen = rng.choice(3, size=200, p=rng.dirichlet([2.0, 2.0, 2.0]))
    return groups[chosen] + rng.normal(scale=5.0, size=(200, 2))


# At most three patients are ever shown (as centres before Lloyd), in a run of Flower.
app = client_app(load_data, bounds=BOUNDS, max_points=3, clip=True, random_state=0)
