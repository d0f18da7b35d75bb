"""Runs the steps of an action and of a job as the runners of GitHub and GitLab run them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
STEP_SECONDS = 120.0


class StepResult(NamedTuple):
    code: int
    printed: str
    outputs: dict[str, str]


class GitHubRunner:
    """Runs a composite action in a workspace, with the inputs of a workflow."""

    def __init__(self, action: Mapping[str, Any], checkout: Path, workspace: Path) -> None:
        self._action, self._checkout, self._workspace = action, checkout, workspace
        self._temp = workspace.parent / "runner"
        self._temp.mkdir(exist_ok=True)

    def run(self, environment: Mapping[str, str], **given: str) -> StepResult:
        """Run the steps until one fails."""
        unknown = given.keys() - self._action["inputs"].keys()
        assert not unknown, f"the action has no inputs {unknown}"
        inputs = {
            f"inputs.{name}": given.get(name, str(item.get("default", "")))
            for name, item in self._action["inputs"].items()
        }
        printed, code = "", 0
        outputs: dict[str, str] = {}
        for step in self._action["runs"]["steps"]:
            result = self._step(step, inputs, environment)
            printed, code = printed + result.printed, result.code
            outputs |= {f"steps.{step.get('id')}.outputs.{k}": v for k, v in result.outputs.items()}
            if code:
                break
        shown = {
            name: _evaluated(item["value"], outputs)
            for name, item in self._action["outputs"].items()
        }
        return StepResult(code, printed, shown)

    def _step(
        self, step: Mapping[str, Any], inputs: Mapping[str, str], environment: Mapping[str, str]
    ) -> StepResult:
        # A runner puts the value of an expression into the script as it is: whoever writes the
        # input writes the program. So there is none.
        assert not EXPRESSION.search(step["run"])
        script, output = self._temp / "step.sh", self._temp / "output"
        script.write_text(step["run"], "utf-8")
        output.write_text("", "utf-8")
        variables = {
            **environment,
            **{name: _evaluated(value, inputs) for name, value in step.get("env", {}).items()},
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": str(self._checkout),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_WORKSPACE": str(self._workspace),
            "RUNNER_TEMP": str(self._temp),
        }
        assert step["shell"] == "bash"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        code, printed = _ran(command, self._workspace, variables)
        lines = output.read_text("utf-8").splitlines()
        return StepResult(code, printed, dict(line.split("=", 1) for line in lines))


def run_gitlab_job(
    job: Mapping[str, Any], workspace: Path, environment: Mapping[str, str], **given: str
) -> StepResult:
    """Run a job of GitLab CI; its `outputs` are the paths of its reports."""
    script = "\n".join(job["script"])
    variables = {**environment, **job["variables"], **given, "CI_PROJECT_DIR": str(workspace)}
    code, printed = _ran(["bash", "-eo", "pipefail", "-c", script], workspace, variables)
    return StepResult(code, printed, job["artifacts"]["reports"])


def _evaluated(text: str, values: Mapping[str, str]) -> str:
    return EXPRESSION.sub(lambda match: values.get(match[1], ""), text)


def _ran(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    ran = subprocess.run(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=STEP_SECONDS,
    )
    return ran.returncode, ran.stdout
