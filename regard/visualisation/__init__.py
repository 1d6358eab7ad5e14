"""What a model looked at, as pictures: plain data in, SVG, PNG or one HTML page out; no model is known here."""

from regard.visualisation.charts import Chart, Series
from regard.visualisation.curves import Curves, LogSeries, Panel
from regard.visualisation.explanation_data import ExplanationData
from regard.visualisation.heads import Heads
from regard.visualisation.heatmap import Alignment
from regard.visualisation.overlay import Overlay, SourceImage
from regard.visualisation.page import Meta
from regard.visualisation.rendering import png, svg
from regard.visualisation.saving import save

__all__ = [
    "Alignment",
    "Chart",
    "Curves",
    "ExplanationData",
    "Heads",
    "LogSeries",
    "Meta",
    "Overlay",
    "Panel",
    "Series",
    "SourceImage",
    "png",
    "save",
    "svg",
]
