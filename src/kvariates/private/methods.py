"""The private methods by name: what `PrivateKMeans(method=...)` takes, and what every test walks.

A method with other choices is made by hand: ``PrivateKMeans(..., method=Lloyd(steps=3))``.
"""

from __future__ import annotations

from kvariates.private.lloyd import Lloyd
from kvariates.private.task import Method

METHODS: dict[str, Method] = {
    "lloyd": Lloyd(),
}
