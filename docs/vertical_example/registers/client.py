"""The side of a party. Replace `load_columns` by a function that reads your own table."""

import numpy as np

from kvariates.federated import vertical_client_app


def load_columns(context):
    """Fake persons in three groups: a hospital knows two columns, an insurer three others."""
    group = np.random.default_rng(0).integers(3, size=(600, 1))
    persons = [f"person {i}" for i in range(600)]
    if context.node_config["name"] == "hospital":
        return np.random.default_rng(1).normal(size=(600, 2)) + 4 * group, persons
    return np.random.default_rng(2).normal(size=(600, 3)) - 5 * group, persons


def save(context, result):
    """Write this party's part of the centres, and the labels."""
    result.save(context.node_config["save-to"])


app = vertical_client_app(load_columns, on_result=save)
