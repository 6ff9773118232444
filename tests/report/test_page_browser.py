"""The page in a real browser: it draws, obeys, and asks nobody for anything."""

from dataclasses import replace

import pytest

from benchmarks.browser import Browser, chromium
from tests.report.made import record, two_errors, two_settings
from tests.report.test_page import EVIL, evil_page
from unalike.report.page import page_of_records, write_page
from unalike.runs.results import read_records
from unalike.runs.run import run

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no chromium to open the page with")

PLOT = "document.querySelector('.open [data-chart={}] svg.plot')"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two real settings, so that every chart is there."""
    folder = tmp_path_factory.mktemp("runs")
    for partition in ("natural", "iid"):
        for algorithm in ("fedavg", "scaffold"):
            for seed in (0, 1):
                run(
                    dataset="heart",
                    partition=partition,
                    algorithm=algorithm,
                    rounds=6,
                    epochs=1,
                    seed=seed,
                    runs=folder,
                )
    path = folder / "page.html"
    write_page(page_of_records("Hearts", read_records(folder)), path)
    return path


@pytest.fixture(scope="module")
def browser():
    with Browser(1000, 1200) as made:
        yield made


@pytest.fixture
def opened(browser, page):
    browser.events.clear()
    browser.open(page)
    browser.run("localStorage.clear()")
    yield browser
    assert browser.complaints == []
    assert {address.split("#")[0] for address in browser.requests} == {page.as_uri()}


def lines(browser):
    return browser.run(f"[...{PLOT.format('curves')}.querySelectorAll('[data-line]')].map(e => e.dataset.line)")


def tip(browser):
    return browser.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")


def test_all_charts_are_drawn_in_the_open_setting_and_only_there(opened):
    kinds = opened.run("[...document.querySelectorAll('.open [data-chart]')].map(e => e.dataset.chart)")
    assert kinds == ["heat", "curves", "fair", "bytes", "features"]
    sizes = opened.run(
        "[...document.querySelectorAll('.open [data-chart] svg.plot')].map(e => e.getBoundingClientRect().height)"
    )
    assert len(sizes) == 6  # the features have two
    assert min(sizes) > 40
    assert opened.run("document.querySelectorAll('.setting:not(.open) svg.plot').length") == 0
    dots = opened.run(f"{PLOT.format('features')}.querySelectorAll('circle').length")
    assert dots > 100
    assert "NaN" not in opened.run("document.querySelector('.open').innerHTML")


def test_a_name_in_the_legend_hides_and_shows_its_line(opened):
    assert lines(opened) == ["fedavg", "scaffold"]
    button = "document.querySelector('.open [data-chart=curves] .legend [data-algorithm=fedavg]')"
    opened.run(f"{button}.click()")
    assert lines(opened) == ["scaffold"]
    assert opened.run(f"{button}.getAttribute('aria-pressed')") == "false"
    opened.run(f"{button}.click()")
    assert lines(opened) == ["fedavg", "scaffold"]
    opened.run("document.querySelectorAll('.open [data-chart=curves] .legend button').forEach(e => e.click())")
    assert lines(opened) == []
    assert "hidden" in opened.run(f"{PLOT.format('curves')}.textContent")


def test_pointing_shows_values_and_leaving_hides_them(opened):
    x, y = opened.run(
        f"(() => {{ const e = {PLOT.format('curves')}; e.scrollIntoView({{block: 'center'}}); "
        "const r = e.getBoundingClientRect(); return [r.right - 12, r.top + 60]; })()"
    )
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    said = tip(opened)
    assert said.startswith("round 6")
    assert "fedavg" in said
    assert "±" in said
    opened.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert tip(opened) == ""


def test_the_arrow_keys_read_values(opened):
    opened.run(f"{PLOT.format('curves')}.focus()")
    for key, expected in (
        ("Home", "round 1"),
        ("ArrowRight", "round 2"),
        ("End", "round 6"),
        ("ArrowLeft", "round 5"),
    ):
        opened.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        assert tip(opened).startswith(expected)
    opened.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert tip(opened) == ""


def test_another_figure_can_be_shown(opened):
    before = opened.run(f"{PLOT.format('curves')}.innerHTML")
    opened.run("document.querySelector('.open [data-metric=loss]').click()")
    assert "test loss" in opened.run(f"{PLOT.format('curves')}.textContent")
    assert opened.run(f"{PLOT.format('curves')}.innerHTML") != before
    assert "test accuracy" in opened.run(f"{PLOT.format('bytes')}.textContent")


def test_the_chooser_opens_the_other_setting(opened):
    first = opened.run("document.querySelector('.open').id")
    opened.run("document.querySelector('.chooser a:not([aria-current])').click()")
    opened.run("new Promise(done => setTimeout(done, 50))")
    second = opened.run("document.querySelector('.open').id")
    assert {first, second} == {"s1", "s2"}
    assert opened.run("document.querySelectorAll('.open').length") == 1
    assert opened.run("document.querySelectorAll('.open [data-chart] svg.plot').length") == 6
    assert opened.run("document.querySelector('.chooser [aria-current]').getAttribute('href')") == f"#{second}"


def test_an_anchor_in_the_address_opens_its_setting(browser, page):
    browser.open(page, "#s2")
    assert browser.run("document.querySelector('.open').id") == "s2"
    browser.open(page, "#s99")
    assert browser.run("document.querySelectorAll('.open').length") == 1


def test_a_group_of_features_can_be_brought_out(opened):
    opened.run("document.querySelector('.open [data-chart=features] .legend button').click()")
    seen = opened.run(
        f"[...new Set([...{PLOT.format('features')}.querySelectorAll('circle')]"
        ".map(e => e.style.fillOpacity))].sort()"
    )
    assert seen == ["0.06", "0.9"]


def test_light_and_dark(opened):
    paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.run(paper)
    opened.run("document.getElementById('theme').click()")
    assert opened.run(paper) == light
    opened.run("document.getElementById('theme').click()")
    dark = opened.run(paper)
    assert dark != light
    assert opened.run("document.documentElement.dataset.theme") == "dark"
    opened.run("document.getElementById('theme').click()")
    assert opened.run(paper) == light


def test_a_dark_system_gets_a_dark_page_and_may_be_overruled(page):
    with Browser(800, 600, dark=True) as browser:
        browser.open(page)
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = browser.run(paper)
        browser.run("document.getElementById('theme').click()")
        assert browser.run(paper) != dark
        assert browser.complaints == []


def test_a_phone_does_not_scroll_sideways(page):
    with Browser(375, 700, phone=True) as browser:
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth") == 375
        inside = browser.run("[...document.querySelectorAll('.scroll')].some(e => e.scrollWidth > e.clientWidth)")
        assert inside  # wide tables scroll in their own boxes
        assert browser.run("document.querySelectorAll('.open svg.plot').length") == 6
        assert browser.complaints == []


def test_print_has_every_setting(opened):
    made = opened.printed()
    assert made.startswith(b"%PDF")
    assert opened.run("document.querySelectorAll('.setting svg.plot').length") == 12


def test_names_run_no_script(browser, tmp_path):
    browser.events.clear()
    evil = evil_page(EVIL)
    twice = replace(evil, settings=evil.settings * 2)
    write_page(twice, tmp_path / "evil.html", use_data=False)
    browser.open(tmp_path / "evil.html")
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title").startswith("</script>")
    assert len(browser.requests) == 1
    assert browser.complaints == []


def test_made_by_hand_with_no_data_it_draws_too(browser, tmp_path):
    browser.events.clear()
    write_page(two_settings(), tmp_path / "page.html", use_data=False)
    browser.open(tmp_path / "page.html")
    assert browser.run("document.querySelectorAll('.open svg.plot').length") == 3
    assert browser.complaints == []


def test_a_single_round_is_a_dot(browser, tmp_path):
    browser.events.clear()
    one = record()
    write_page(page_of_records("t", [replace(one, rounds=one.rounds[:1])]), tmp_path / "page.html", use_data=False)
    browser.open(tmp_path / "page.html")
    assert browser.run(f"{PLOT.format('curves')}.querySelectorAll('.alone').length") == 1
    assert "NaN" not in browser.run("document.body.innerHTML")
    assert browser.complaints == []


def test_bands_are_drawn_whole(browser, tmp_path):
    browser.events.clear()
    ends = {"fedavg": (0.50, 0.85, 0.99), "scaffold": (0.79, 0.80, 0.81)}
    runs = []
    for name, each in ends.items():
        for seed, end in enumerate(each):
            made = record(name, seed, end)
            runs.append(replace(made, rounds=tuple(row | {"accuracy": end} for row in made.rounds)))
    write_page(page_of_records("t", runs), tmp_path / "page.html", use_data=False)
    browser.open(tmp_path / "page.html")
    plot = PLOT.format("curves")
    top, height = browser.run(f"(() => {{ const r = {plot}.querySelector('clipPath rect'); "
                              "return [+r.getAttribute('y'), +r.getAttribute('height')]; })()")  # fmt: skip
    points = browser.run(f"[...{plot}.querySelectorAll('.band')].map(e => e.getAttribute('points'))")
    heights = [float(point.split(",")[1]) for band in points for point in band.split()]
    assert len(points) == 2
    assert top <= min(heights)
    assert max(heights) <= top + height
    highest = browser.run(f"Math.max(...[...{plot}.querySelectorAll('text')].map(e => +e.textContent || 0))")
    assert highest == 100  # nothing suggests that there is more


def test_an_empty_page_opens(browser, tmp_path):
    browser.events.clear()
    write_page(replace(two_settings(), settings=()), tmp_path / "page.html", use_data=False)
    browser.open(tmp_path / "page.html")
    assert "No run is finished yet" in browser.run("document.body.innerText")
    assert browser.complaints == []


def test_a_page_of_errors_names_them_and_sorts_the_lowest_first(browser, tmp_path):
    write_page(page_of_records("Errors", two_errors()), tmp_path / "errors.html", use_data=False)
    browser.events.clear()
    browser.open(tmp_path / "errors.html")
    drawn = {kind: browser.run(f"{PLOT.format(kind)}.textContent") for kind in ("curves", "bytes")}
    assert all(text.startswith("test RMSE") and "target 58.7" in text for text in drawn.values())
    assert "%" not in "".join(drawn.values())
    fair = browser.run(f"{PLOT.format('fair')}.textContent")
    assert "RMSE on a party's held-out rows" in fair
    browser.run(f"{PLOT.format('curves')}.focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="End")
    said = tip(browser)
    assert said.index("scaffold") < said.index("fedavg")
    assert "53.200 ± 0.500" in said
    edge = browser.run(f"{PLOT.format('fair')}.querySelector('line.grid').getAttribute('x1')")
    assert float(edge) > 0
    assert browser.complaints == []
