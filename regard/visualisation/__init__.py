"""What a model looked at, as pictures: plain data in, SVG, PNG or one HTML page out; no model is known here."""

from regard.visualisation.curves import Curves, Panel, Series
from regard.visualisation.figures import png, svg
from regard.visualisation.files import save
from regard.visualisation.heatmap import Alignment
from regard.visualisation.page import Meta
from regard.visualisation.story import Story

__all__ = ["Alignment", "Curves", "Meta", "Panel", "Series", "Story", "png", "save", "svg"]
