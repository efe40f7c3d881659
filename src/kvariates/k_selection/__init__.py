"""Chooses the number of clusters: a search, a confirmation on halves of the rows, criteria."""

from .choice import WEAK as WEAK
from .choice import Choice as Choice
from .choice import SelectionOptions as SelectionOptions
from .choice import choose as choose
