"""`card`: kernels run on the processor, and so does what asks kvariates for a card."""

import pytest
from cuda.on_host import HostCard, compiler

import kvariates.cuda.card as cards


@pytest.fixture
def card(monkeypatch):
    """A HostCard, which `card_of()` gives, too."""
    if compiler() is None:
        pytest.skip("needs a C++ compiler")
    opened = {}

    def host_card(number=0):
        return opened.setdefault(number, HostCard(number))

    monkeypatch.setattr(cards, "open_card", host_card)
    monkeypatch.setattr(cards, "_cards", {})
    return cards.card_of()
