"""Semantic versions are read, ordered and complained about as blang/semver does."""

from __future__ import annotations

import itertools

import pytest

from dray.api.formats import semver

PRECEDENCE = [
    "1.0.0-0.3.7",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_versions_are_ordered_by_precedence() -> None:
    versions = list(map(semver.parse, PRECEDENCE))
    assert sorted(versions, reverse=True) == versions[::-1]
    for earlier, later in itertools.pairwise(versions):
        assert earlier < later
        assert later > earlier
        assert earlier <= later
        assert later >= earlier
        assert (earlier.compare(later), later.compare(earlier)) == (-1, 1)


def test_build_metadata_decides_nothing() -> None:
    one, other = semver.parse("1.2.3+a"), semver.parse("1.2.3+b.5")
    assert one == other
    assert hash(one) == hash(other)
    assert one.compare(other) == 0
    assert one != "1.2.3+a"


@pytest.mark.parametrize("text", ["1.2.3", "0.0.0", "1.2.3-a-b.0a.-", "1.2.3+01", "1.2.3-4+x.y-z"])
def test_text_round_trips(text: str) -> None:
    assert str(semver.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch elements found"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1. 2.3", 'Invalid character(s) found in minor number " 2"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        ("1.2.x", 'Invalid character(s) found in patch number "x"'),
        ("01.1.1", 'Major number must not contain leading zeroes "01"'),
        ("1.01.1", 'Minor number must not contain leading zeroes "01"'),
        ("1.1.00", 'Patch number must not contain leading zeroes "00"'),
        (".1.1", 'strconv.ParseUint: parsing "": invalid syntax'),
        (
            "18446744073709551616.0.0",
            'strconv.ParseUint: parsing "18446744073709551616": value out of range',
        ),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a$", 'Invalid character(s) found in build meta data "a$"'),
        ("1.2.3-ü", 'Invalid character(s) found in prerelease "ü"'),
    ],
)
def test_malformed_text_is_refused_in_upstream_words(text: str, message: str) -> None:
    with pytest.raises(semver.VersionError) as caught:
        semver.parse(text)
    assert str(caught.value) == message


def test_the_largest_number_is_64_bits() -> None:
    assert semver.parse("18446744073709551615.0.0").major == 2**64 - 1


def test_numbers_of_any_length_are_refused_quickly() -> None:
    with pytest.raises(semver.VersionError, match="value out of range"):
        semver.parse("9" * 100_000 + ".0.0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("01.002.0003", "1.2.3"),
        ("1.2.00-rc.1+b", "1.2.0-rc.1+b"),
        ("0.00.000", "0.0.0"),
    ],
)
def test_normalisation_completes_a_version(text: str, expected: str) -> None:
    assert str(semver.parse_normalized(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-rc", "short version cannot contain PreRelease/Build meta data"),
        ("1.2+b", "short version cannot contain PreRelease/Build meta data"),
        ("", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("vv1.2.3", 'Invalid character(s) found in major number "0v1"'),
        (" 1.0.0", 'Invalid character(s) found in major number "0 1"'),
    ],
)
def test_normalisation_has_limits(text: str, message: str) -> None:
    with pytest.raises(semver.VersionError) as caught:
        semver.parse_normalized(text)
    assert str(caught.value) == message
