"""What a model looked at, as pictures: plain data in, SVG, PNG or one HTML page out; no model is known here."""

from regard.visualisation.charts import Chart, Trace
from regard.visualisation.curves import Curves, Panel, Series
from regard.visualisation.figures import png, svg
from regard.visualisation.files import save
from regard.visualisation.heads import Heads
from regard.visualisation.heatmap import Alignment
from regard.visualisation.overlay import Overlay, Seen
from regard.visualisation.page import Meta
from regard.visualisation.story import Story

__all__ = [
    "Alignment",
    "Chart",
    "Curves",
    "Heads",
    "Meta",
    "Overlay",
    "Panel",
    "Seen",
    "Series",
    "Story",
    "Trace",
    "png",
    "save",
    "svg",
]
