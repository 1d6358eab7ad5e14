"""Read what a figure draws: its texts, boxes and lines, in all groups or in one."""

from regard.visualisation.figure import Box, Figure, Mark, Polyline, Raster, Text


def marks_of(figure: Figure, group: str = "") -> list[Mark]:
    """Return the marks of the groups of a name, or all."""
    marks = []
    for one in figure.groups:
        if one.name == group or not group:
            marks += one.marks

    return marks


def texts_of(figure: Figure, group: str = "") -> list[Text]:
    return [mark for mark in marks_of(figure, group) if isinstance(mark, Text)]


def words_of(figure: Figure, group: str = "") -> list[str]:
    return [mark.text for mark in texts_of(figure, group)]


def boxes_of(figure: Figure, group: str = "") -> list[Box]:
    return [mark for mark in marks_of(figure, group) if isinstance(mark, Box)]


def lines_of(figure: Figure, group: str = "") -> list[Polyline]:
    return [mark for mark in marks_of(figure, group) if isinstance(mark, Polyline)]


def assert_inside(figure: Figure) -> None:
    """Check that no mark leaves the canvas."""
    for mark in figure.marks():
        if isinstance(mark, Text):
            corners = mark.corners()
        elif isinstance(mark, (Box, Raster)):
            corners = ((mark.x, mark.y), (mark.x + mark.width, mark.y + mark.height))
        else:
            corners = tuple(mark.points)

        for x, y in corners:
            assert -1 <= x <= figure.width, mark
            assert -1 <= y <= figure.height, mark
