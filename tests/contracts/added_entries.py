"""Adds an entry to every table: a plugin of pytest, for tests/test_tables.py.

The entries are copies of others under a new name, as if somebody had added a choice.
"""

from dataclasses import replace

from kvariates.balancing.group_objectives import GROUP_OBJECTIVES
from kvariates.data.metrics import METRICS
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.objective import OBJECTIVES
from kvariates.private_methods.demand_methods import PRIVATE_KMEDIAN_METHODS
from kvariates.private_methods.methods import PRIVATE_METHODS
from kvariates.refining.refinements import REFINEMENTS
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.seeding.seedings import SEEDINGS
from kvariates.summaries.synopses import SYNOPSES

NAME = "added"
HELP = "This entry was added by a test."
LOST = "nothing is known about what a test added."
COPIED = {
    "SEEDINGS": (SEEDINGS, "d2"),
    "REFINEMENTS": (REFINEMENTS, "hamerly"),
    "OBJECTIVES": (OBJECTIVES, "cosine"),
    "DISTORTIONS": (DISTORTIONS, "kl"),
    "METRICS": (METRICS, "manhattan"),
    "MEDOID_SEEDINGS": (MEDOID_SEEDINGS, "k-median++"),
    "PRIVATE_METHODS": (PRIVATE_METHODS, "lloyd"),
    "PRIVATE_KMEDIAN_METHODS": (PRIVATE_KMEDIAN_METHODS, "local-search"),
    "SYNOPSES": (SYNOPSES, "lightweight"),
    "GROUP_OBJECTIVES": (GROUP_OBJECTIVES, "kplus"),
}


def entry(key, **changes):
    table, name = COPIED[key]
    return replace(table[name], **{"help": HELP, "theorem": None, "lost": LOST, **changes})


def pytest_configure(config):
    for table, name in COPIED.values():
        table[NAME] = replace(table[name], help=HELP)
