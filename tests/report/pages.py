"""What every picture must hold: all of its texts on the page, none on top of another."""

import itertools

from matplotlib.text import Text


def texts(figure):
    return [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]


def written(figure):
    return [text.get_text() for text in texts(figure)]


def check_page(figure):
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    for one, box in boxes:
        assert box.x0 >= 0, one
        assert box.y0 >= 0, one
        assert box.x1 <= figure.bbox.x1, one
        assert box.y1 <= figure.bbox.y1, one
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (across > 1 and down > 1), (one, other)
