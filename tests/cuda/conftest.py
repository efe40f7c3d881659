"""`card`: kernels run on the processor, and so does what asks kvariates for a card."""

import pytest
from api import card_of
from cuda.on_host import HostCard, compiler


@pytest.fixture
def card(monkeypatch):
    """A HostCard, which `card_of()` gives, too."""
    if compiler() is None:
        pytest.skip("needs a C++ compiler")
    opened = {}

    def host_card(number=0):
        return opened.setdefault(number, HostCard(number))

    monkeypatch.setattr("kvariates.cuda.card.open_card", host_card)
    monkeypatch.setattr("kvariates.cuda.card._cards", {})
    return card_of()
