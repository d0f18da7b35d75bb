"""The project of a new driver: the names that it uses, and its files."""

from __future__ import annotations

import importlib.resources
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dray
from dray.api.formats import names
from dray.cli.command_errors import CommandError, WrongUsage
from dray.cli.driver_project import templates
from dray.validation.identifiers import DRIVER_NAME_MAX_BYTES

MANIFEST_VALUES = {
    "namespace": "kube-system",
    "kubelet": "/var/lib/kubelet",
    "cdi": "/var/run/cdi",
}
CHART_VALUES = {
    "release": "{{ .Release.Name }}",
    "namespace": "{{ .Release.Namespace }}",
    "image": "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}",
    "kubelet": "{{ .Values.kubelet.directory }}",
    "cdi": "{{ .Values.cdiDirectory }}",
}
CHART = "chart"


@dataclass(frozen=True, slots=True)
class DriverProject:
    """A new driver: `label` is the first part of its name."""

    label: str
    domain: str
    has_partitions: bool = False
    is_shared: bool = False

    @property
    def name(self) -> str:
        """Return the name of the project, its program, its image and its objects."""
        return f"{self.label}-driver"

    @property
    def driver(self) -> str:
        return f"{self.label}.{self.domain}"

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    def check(self) -> None:
        """Raise WrongUsage unless the names can be used everywhere."""
        if problems := names.dns_label_errors(self.label) or names.dns_label_errors(self.name):
            raise WrongUsage(
                f"{self.label!r} cannot be the name of a driver: {problems[0]}",
                "Use lower case letters, digits and hyphens, such as acme-npu.",
            )
        if problems := names.dns_subdomain_errors(self.domain):
            raise WrongUsage(f"--domain {self.domain!r}: {problems[0]}")
        if not self.package.isidentifier():
            raise WrongUsage(
                f"{self.label!r} cannot be the name of a driver: "
                f"{self.package} would be its package, and is not a name in Python",
                "Begin with a letter, such as acme-npu.",
            )
        if len(self.driver) > DRIVER_NAME_MAX_BYTES:
            raise WrongUsage(
                f"{self.driver} is longer than {DRIVER_NAME_MAX_BYTES} characters",
                "Choose a shorter name or a shorter --domain.",
            )

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield every file: its path in the project, and its text."""
        package, tests = f"src/{self.package}", "tests"
        places = {
            "pyproject.toml": "pyproject.toml",
            "README.md": "readme.md",
            "Containerfile": "containerfile",
            ".gitignore": "gitignore",
            f"{package}/__init__.py": "init.py",
            f"{package}/__main__.py": "main.py",
            f"{package}/driver.py": "driver.py",
            f"{package}/hardware.py": "hardware.py",
            f"{tests}/test_driver.py": "test_driver.py",
            "deploy/device-class.yaml": "device-class.yaml",
            "deploy/driver.yaml": "objects.yaml",
            "deploy/example.yaml": "example.yaml",
            "deploy/chart/Chart.yaml": "chart.yaml",
            "deploy/chart/values.yaml": "values.yaml",
            "deploy/chart/values.schema.json": "values.schema.json",
            "deploy/chart/templates/device-class.yaml": "device-class.yaml",
            "deploy/chart/templates/driver.yaml": "objects.yaml",
        }
        folder = importlib.resources.files(templates.__package__) / "templates"
        for path, template in places.items():
            text = (folder / f"{template}.in").read_text("utf-8")
            is_chart = path.startswith("deploy/chart/templates/")
            yield path, templates.rendered(text, self._values(is_chart), self._chosen(is_chart))

    def _values(self, is_chart: bool) -> Mapping[str, str]:
        words = self.label.split("-")
        own = {
            "project": self.name,
            "driver": self.driver,
            "package": self.package,
            "class": "".join(word.capitalize() for word in words) + "Driver",
            "variable": "_".join(words).upper(),
            "version": dray.__version__,
            "release": self.name,
            "image": f"{self.name}:0.1.0",
        }
        return {**own, **(CHART_VALUES if is_chart else MANIFEST_VALUES)}

    def _chosen(self, is_chart: bool) -> set[str]:
        choices = {
            "partitions": self.has_partitions,
            "shared": self.is_shared,
            "exclusive": not self.has_partitions and not self.is_shared,
            CHART: is_chart,
        }
        return {name for name, is_chosen in choices.items() if is_chosen}

    def write(self, directory: Path) -> None:
        """Create the directory with all files, or nothing. Raises CommandError if it exists."""
        if os.path.lexists(directory):
            raise CommandError(
                f"{directory} exists already", "Nothing was written. Choose another --directory."
            )
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            made = Path(tempfile.mkdtemp(prefix=f".{self.name}-", dir=directory.parent))
        except OSError as error:
            raise CommandError(f"{directory} cannot be created: {error.strerror}") from error
        try:
            for path, text in self.files():
                file = made / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            made.chmod(0o755)
            made.rename(directory)
        except OSError as error:
            raise CommandError(f"{directory} cannot be written: {error.strerror}") from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
