"""Files of stand-ins for images: what they say, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.node.runtimes.interface import Bind
from dray.node.specs import image_stand_ins
from dray.node.specs.image_stand_ins import NOTHING, ImagesError, ImageStandIns

HERE = """images:
  - name: registry.k8s.io/pause
    command: [sleep, infinity]
  - name: busybox
    files: {/tool: /usr/bin/env}
"""


def read(folder: Path, text: str) -> ImageStandIns:
    file = folder / "images.yaml"
    file.write_text(text, "utf-8")
    return image_stand_ins.read(file)


def test_images_are_found_by_their_full_names_whatever_the_tag(tmp_path: Path) -> None:
    images = read(tmp_path, HERE)
    assert images.find("registry.k8s.io/pause:3.10").command == ("sleep", "infinity")
    found = images.find("docker.io/library/busybox@sha256:" + "0" * 64)
    assert found.binds == (Bind("/usr/bin/env", "/tool"),)
    assert images.find("pause") is NOTHING
    assert images.find("not an image") is NOTHING


def test_an_empty_file_names_no_image(tmp_path: Path) -> None:
    assert read(tmp_path, "").find("busybox") is NOTHING


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("images: [{name: a, comand: [b]}]", "comand"),
        ("images: [{name: 'a:1'}]", r"images\[0\].name"),
        ("images: [{command: [a]}]", r"images\[0\].name"),
        ("images: [{name: a, files: {b: /usr}}]", "'b' must be an absolute path"),
        ("images: [{name: a, files: {/b: /no/such/file}}]", "there is no /no/such/file"),
        ("images: {", "yaml"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ImagesError, match=problem):
        read(tmp_path, text)
