"""A report as a reader meets it in Chromium: silent, offline, readable on a desk and on a phone, by day and by night."""

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import report_data

from sweep import pages

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--no-first-run", "--disable-dev-shm-usage"]
HOSTILE = "</script><img src=x onerror='window.hurt = true'><b>"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH; $CHROMIUM may name one"),
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return pages.write_report(report_data.study(120, 6), tmp_path_factory.mktemp("report"))


def visit(browser, page_file, width=1280, scheme="light"):
    """The page, and what went wrong on it: console messages, errors, requests that leave this machine."""
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    wrong = []
    page.on("console", lambda m: wrong.append(f"{m.type}: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: wrong.append(str(e)))
    page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto(page_file.as_uri())
    page.wait_for_function("[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.main-svg'))")
    return page, wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_reads_well(browser, report, width, scheme):
    page, wrong = visit(browser, report, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll') && !e.closest('.plot')
            && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    for plot in page.query_selector_all(".plot"):
        box, drawn = plot.bounding_box(), plot.query_selector(".main-svg").bounding_box()
        assert drawn["width"] <= box["width"] + 1
    assert wrong == []
    page.context.close()


def contrast(page, selector):
    """WCAG contrast of an element's text on the page."""
    return page.evaluate(
        """selector => {
            const light = text => { const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92
                : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
            const style = getComputedStyle(document.querySelector(selector));
            const [a, b] = [light(style.fill !== 'rgb(0, 0, 0)' ? style.fill : style.color),
                light(getComputedStyle(document.body).backgroundColor)].sort((x, y) => y - x);
            return (a + .05) / (b + .05); }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_figures_stand_out(browser, report, scheme):
    page, _ = visit(browser, report, scheme=scheme)
    for selector in ("p", ".facts small", "figcaption", "td small", ".xtick text", ".legendtext"):
        assert contrast(page, selector) >= 4.5, selector
    page.context.close()


def test_follows_the_reader_from_day_to_night(browser, report):
    page, wrong = visit(browser, report)
    tick = "getComputedStyle(document.querySelector('.xtick text')).fill"
    day = page.evaluate(tick)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{tick} !== '{day}'")
    assert wrong == []
    page.context.close()


def test_buttons_change_what_is_drawn(browser, report):
    page, wrong = visit(browser, report)
    page.click("button[data-plot='learning'][data-view='1']")
    page.wait_for_function("document.querySelector(\"[data-name='learning'] .xtitle\").textContent === 'env steps'")
    page.click("button[data-plot='front'][data-view='1']")
    page.wait_for_function("document.querySelector(\"[data-name='front'] .ytitle\").textContent.startsWith('median')")
    assert page.get_attribute("button[data-plot='front'][data-view='1']", "aria-pressed") == "true"
    assert wrong == []
    page.context.close()


def test_a_point_tells_its_params(browser, report):
    page, _ = visit(browser, report)
    page.locator("[data-name='front'] .scatterlayer .trace:last-child .point").first.scroll_into_view_if_needed()
    points = page.locator("[data-name='front'] .scatterlayer .point")
    box = points.nth(points.count() - 2).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("[data-name='front'] .hovertext")
    assert "learning_rate" in page.text_content("[data-name='front'] .hovertext")
    page.context.close()


def test_prints_within_the_paper(browser, report):
    page, wrong = visit(browser, report)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    widths = page.evaluate("[...document.querySelectorAll('.plot .main-svg')].map(s => s.getBoundingClientRect().width)")
    assert max(widths) <= 700
    assert wrong == []
    page.context.close()


def test_hostile_text_does_nothing(browser, tmp_path):
    data = report_data.study(30, 4)
    data["study"].update(name=HOSTILE, question=HOSTILE, env=HOSTILE)
    for trial in data["trials"]:
        trial["params"][HOSTILE] = f"{HOSTILE}{trial['number']}"
    page, wrong = visit(browser, pages.write_report(data, tmp_path / "report"))
    for point in page.locator("[data-name='front'] .scatterlayer .point").all()[-3:]:
        point.hover(force=True)
        page.wait_for_timeout(100)
    assert page.evaluate("window.hurt") is None
    assert page.query_selector("main img") is None
    assert HOSTILE in page.text_content("h1")
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize("data", [
    report_data.study(0, 0), report_data.study(30, 0, rate=0.0), report_data.study(30, 0), report_data.study(2000, 8, curves=False),
], ids=["no trial", "no solve", "claims only", "two thousand trials"])
def test_odd_studies_are_pages_too(browser, tmp_path, data):
    page, wrong = visit(browser, pages.write_report(data, tmp_path / "report"), 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert wrong == []
    page.context.close()


def test_says_so_where_plotly_is_missing(browser, tmp_path):
    file = pages.write_report(report_data.study(10, 1), tmp_path / "report")
    (file.parent / pages.PLOTLY).unlink()
    page = browser.new_page()
    page.goto(file.as_uri())
    assert "plotly.min.js is not beside this page" in page.text_content(".plot")
    page.close()
