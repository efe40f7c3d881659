"""Adds an entry to every table: a plugin of pytest, for tests/test_tables.py.

The entries are copies of others under a new name, as if somebody had added a choice.
"""

from dataclasses import replace

from api import (
    DISTORTIONS,
    GROUP_OBJECTIVES,
    MEDOID_SEEDINGS,
    METRICS,
    OBJECTIVES,
    PRIVATE_KMEDIAN_METHODS,
    PRIVATE_METHODS,
    REFINEMENTS,
    SEEDINGS,
    SYNOPSES,
)

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
