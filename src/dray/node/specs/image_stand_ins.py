"""Commands and files that stand in for images, for a runtime without images.

A file names them. Containers run the programs of the node, with these files added:

    images:
      - name: registry.k8s.io/pause
        command: [sleep, infinity]
      - name: registry.example.com/tool
        files: {/tool: /opt/tool/bin/tool}

A name has no tag: it stands for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from dray.api.formats import bounded_yaml, image_references
from dray.node.containers.container_attempts import Argv
from dray.node.runtimes.interface import Bind


class ImagesError(ValueError):
    """A file of stand-ins that cannot be used; the message has the field."""


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the file; unknown fields are errors."""


class StandIn(_Part, frozen=True):
    """Command and files for the images of one name."""

    name: str = ""
    command: Argv = ()
    """Replaces the entry point of the image."""
    files: dict[str, str] = {}
    """Files and folders of the node, by their paths in containers, which cannot change them."""

    @property
    def binds(self) -> tuple[Bind, ...]:
        return tuple(Bind(source, target) for target, source in self.files.items())


class _File(_Part, frozen=True):
    images: tuple[StandIn, ...] = ()


NOTHING: Final = StandIn()


@dataclass(frozen=True)
class ImageStandIns:
    """Stand-ins by the names of their images, with the registry and without a tag."""

    by_name: Mapping[str, StandIn] = field(default_factory=dict)

    def find(self, image: str) -> StandIn:
        """Return what stands in for an image: nothing where none is named."""
        return self.by_name.get(_full_name(image), NOTHING) if self.by_name else NOTHING


NO_IMAGES: Final = ImageStandIns()


def read(path: Path) -> ImageStandIns:
    """Read a file of stand-ins. Raises OSError and ImagesError."""
    try:
        written = bounded_yaml.load(path.read_text("utf-8"), bounded_yaml.FLEET_FILE) or {}
        images = msgspec.convert(written, _File).images
    except (UnicodeDecodeError, bounded_yaml.YamlError, msgspec.ValidationError) as error:
        raise ImagesError(str(error)) from error
    for index, image in enumerate(images):
        _check(image, f"images[{index}]")
    return ImageStandIns({_full_name(image.name): image for image in images})


def _check(image: StandIn, where: str) -> None:
    reference = image_references.parse(image.name)
    if reference is None or image.name.endswith(f":{reference.tag}") or reference.digest:
        raise ImagesError(f"{where}.name: {image.name!r} must be an image without tag and digest")
    for target, source in image.files.items():
        if not target.startswith("/"):
            raise ImagesError(f"{where}.files: {target!r} must be an absolute path")
        if not Path(source).is_absolute() or not Path(source).exists():
            raise ImagesError(f"{where}.files[{target}]: there is no {source} on this computer")


def _full_name(image: str) -> str:
    reference = image_references.parse(image)
    return f"{reference.domain}/{reference.path}" if reference is not None else ""
