"""Findings are printed as cel-go prints them."""

from dray.cel.issues import MAX_REPORTED, CompilationFailed, Issue, render


def test_an_issue_shows_line_column_and_the_place() -> None:
    assert render("a +\nbc", [Issue(5, "wrong")]) == "ERROR: <input>:2:2: wrong\n | bc\n | .^"


def test_the_first_character_is_column_one() -> None:
    assert render("x", [Issue(0, "wrong")]) == "ERROR: <input>:1:1: wrong\n | x\n | ^"


def test_the_end_of_the_text_is_a_place() -> None:
    assert render("x", [Issue(1, "wrong")]) == "ERROR: <input>:1:2: wrong\n | x\n | .^"


def test_an_issue_without_a_place_shows_no_text() -> None:
    assert render("x", [Issue(None, "wrong")]) == "ERROR: <input>:-1:0: wrong"


def test_an_empty_text_is_not_shown() -> None:
    assert render("", [Issue(0, "wrong")]) == "ERROR: <input>:1:1: wrong"


def test_wide_characters_are_counted_once_and_drawn_wide() -> None:
    assert render("'é' + ü", [Issue(6, "wrong")]) == (
        "ERROR: <input>:1:7: wrong\n | 'é' + ü\n | .．....＾"
    )


def test_tabs_are_shown_as_one_blank() -> None:
    assert render("\tx", [Issue(1, "wrong")]) == "ERROR: <input>:1:2: wrong\n |  x\n | .^"


def test_very_long_lines_are_not_shown() -> None:
    assert render("x" * 16385, [Issue(0, "wrong")]) == "ERROR: <input>:1:1: wrong"


def test_issues_are_sorted_by_place_and_those_without_come_first() -> None:
    text = render("ab", [Issue(1, "second"), Issue(0, "first"), Issue(None, "nowhere")])
    assert [line.rsplit(" ", 1)[1] for line in text.splitlines() if "ERROR" in line] == [
        "nowhere",
        "first",
        "second",
    ]


def test_issues_at_one_place_keep_their_order() -> None:
    text = render("a", [Issue(0, "first"), Issue(0, "second")])
    assert text.index("first") < text.index("second")


def test_only_the_first_reported_issues_are_shown() -> None:
    issues = [Issue(0, f"number {index}") for index in range(MAX_REPORTED + 3)]
    text = render("a", issues)
    assert "number 99" in text
    assert "number 100" not in text
    assert text.endswith("\n3 more errors were truncated")


def test_a_failure_prints_its_issues() -> None:
    failure = CompilationFailed("a", [Issue(0, "wrong")])
    assert str(failure) == render("a", failure.issues)
