"""Names that come close."""

from __future__ import annotations

from dray.explain.selectors import spelling
from dray.explain.selectors.expressions import SelectorSubject

NAME = SelectorSubject("attributes", "a.com", "productName")


def test_other_case_comes_first() -> None:
    known = ["productNames", "productName", "index"]
    assert spelling.similar("productname", known) == ["productName", "productNames"]


def test_words_without_likeness_are_left_out() -> None:
    assert spelling.similar("productName", ["index", "uuid"]) == []


def test_written_otherwise_ignores_case_dashes_and_blanks() -> None:
    assert spelling.same_but_spelling("nvidia-h100", ["NVIDIA H100", "NVIDIA H200"]) == [
        "NVIDIA H100"
    ]


def test_own_domain_comes_before_others() -> None:
    here, there = NAME._replace(name="productname"), NAME._replace(domain="b.com")
    assert spelling.similar_subjects(NAME, [there, here]) == [here, there]


def test_capacity_of_the_same_name_is_similar_to_an_attribute() -> None:
    capacity = NAME._replace(field="capacity")
    assert spelling.similar_subjects(NAME, [capacity]) == [capacity]


def test_half_alike_names_of_other_domains_are_not_similar() -> None:
    assert (
        spelling.similar_subjects(NAME, [SelectorSubject("attributes", "b.com", "productNam")])
        == []
    )


def test_domains_with_labels_more_or_fewer_are_similar() -> None:
    assert spelling.similar_domains("nvidia.com", ["gpu.nvidia.com", "dra.net"]) == [
        "gpu.nvidia.com"
    ]
    assert spelling.similar_domains("gpu", ["gpu.nvidia.com", "dra.net"]) == ["gpu.nvidia.com"]
    assert spelling.similar_domains("nic", ["gpu.example.com"]) == []


def test_parts_in_another_case() -> None:
    assert spelling.parts_in_other_case("h100", ["NVIDIA H100", "NVIDIA A100"]) == ["H100"]
    assert spelling.parts_in_other_case("H100", ["NVIDIA H100"]) == []
