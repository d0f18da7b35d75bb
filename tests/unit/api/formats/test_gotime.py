import datetime

import pytest

from dray.api.formats import gotime


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-11-15T01:14:31Z", "2026-11-15T01:14:31Z"),
        ("2026-11-15T01:14:31.987654321Z", "2026-11-15T01:14:31Z"),
        ("2026-11-15T01:14:31+02:30", "2026-11-14T22:44:31Z"),
        ("2026-11-15T01:14:31-02:30", "2026-11-15T03:44:31Z"),
        ("2026-11-15T1:14:31Z", "2026-11-15T01:14:31Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_time_is_written_in_utc_to_the_second(text: str, written: str) -> None:
    assert gotime.write(gotime.parse(text)) == written


def test_a_micro_time_has_six_decimals() -> None:
    time = gotime.parse("2026-11-15T01:14:31.000250Z", gotime.MICROSECONDS)
    assert time.microsecond == 250
    assert gotime.write(time, gotime.MICROSECONDS) == "2026-11-15T01:14:31.000250Z"


def test_fractions_of_a_second_are_kept_to_the_microsecond() -> None:
    assert gotime.parse("2026-01-01T00:00:00.5Z") == datetime.datetime(
        2026, 1, 1, microsecond=500_000, tzinfo=datetime.UTC
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "yesterday",
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00":'
            ' cannot parse "yesterday" as "2006"',
        ),
        (
            "2026-11-15",
            'parsing time "2026-11-15" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
        ),
        (
            "2026-11-15T01:14:31",
            'parsing time "2026-11-15T01:14:31" as "2006-01-02T15:04:05Z07:00":'
            ' cannot parse "" as "Z07:00"',
        ),
        ("2026-13-15T01:14:31Z", 'parsing time "2026-13-15T01:14:31Z": month out of range'),
        ("2026-02-30T01:14:31Z", 'parsing time "2026-02-30T01:14:31Z": day out of range'),
        ("2026-02-03T24:00:00Z", 'parsing time "2026-02-03T24:00:00Z": hour out of range'),
        ("2026-02-03T00:00:00Zulu", 'parsing time "2026-02-03T00:00:00Zulu": extra text: "ulu"'),
        (
            "0001-01-01T00:00:00+01:00",
            'parsing time "0001-01-01T00:00:00+01:00": day out of range',
        ),
    ],
)
def test_what_is_no_time_is_refused_in_the_words_of_go(text: str, complaint: str) -> None:
    with pytest.raises(gotime.TimeError) as raised:
        gotime.parse(text)
    assert str(raised.value) == complaint
