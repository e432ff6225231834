"""Numbers for people."""

import math

import pytest

from sweep import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.2134, "0.213"), (0.9999, "1.00"), (12.345, "12.3"), (999.6, "1,000"), (12345, "12,300"), (1.2e-5, "1.2e-05"),
     (-0.5, "−0.500"), (0, "0"), (math.inf, "∞"), (math.nan, "–"), (None, "–"), ("12", "–"), (True, "–")],
)
def test_number_has_three_digits(value, text):
    assert formats.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(950, "950"), (4_700_000, "4.70M"), (999_999, "1.00M"), (480_123.4, "480k"), (None, "–"), (0, "0")]
)
def test_short(value, text):
    assert formats.short(value) == text


@pytest.mark.parametrize(("value", "text"), [(2.5, "2.50 s"), (90, "90 s"), (900, "15 min"), (5400, "1 h 30 min"), (None, "–")])
def test_duration(value, text):
    assert formats.duration(value) == text


def test_seconds_keeps_its_unit_but_for_what_is_no_number():
    assert [formats.seconds(v) for v in (0.2134, 1234, math.inf, None)] == ["0.213 s", "1,230 s", "∞", "–"]


def test_percent():
    assert [formats.percent(v) for v in (0, 0.004, 0.07, 0.984, None)] == ["0%", "0.4%", "7%", "98%", "–"]


def test_param():
    assert [formats.param(v) for v in (True, 0.0123456, 64, "muon", None, [8, 16])] == ["true", "0.01235", "64", "muon", "–", "8, 16"]
