"""Writes docs/conformance.md: how to use `dray conformance`, and every check of it.

`python -m tools.make_conformance`, or `make generate`. A test holds the file against the code.
"""

from __future__ import annotations

from pathlib import Path

from dray.conformance.checks import catalogue

TARGET = Path(__file__).parents[1] / "docs" / "conformance.md"
HEAD = """# Check a driver

`dray conformance` checks that a DRA driver does what Kubernetes requires of it, in any language. It
needs neither a cluster nor containers nor root: it starts an API server of its own, starts the
driver as a process on a node that has only directories, allocates devices to claims, and calls the
driver as a node agent does. A driver of devices that this computer does not have needs a simulation
of them, as for its other tests.

```console
$ export OPTIONS="--kubeconfig {kubeconfig} --node {node} --folder {folder}"
$ export DRIVER="python examples/drivers/hello.py $OPTIONS"
$ dray conformance --check refusal --command "$DRIVER"
passed  refusal.unknown-claim      A claim that does not exist is not prepared.
…
7 checks: 7 passed, 0 failed, 0 skipped, in … s.
```

Without `--check` all checks are made, in less than a minute. A failed check says what was required,
what was seen, what to do, and where Kubernetes says so. A check that does not apply to the driver
is skipped with the reason: a driver without a health service needs none.

| to | use |
|---|---|
| start the driver | `--command "./driver --flags {plugins} {registry}"` |
| check a driver that runs already, on its node | `--socket FILE --node NAME` |
| make some of the checks | `--check prepare`, `--check slices.count` |
| see every check | `--list` |
| get a report for programs | `-o json`, `-o yaml` |
| get a report for pipelines | `--junit FILE` |

The exit code is 0 if no check failed, 1 if one did, and 2 for wrong arguments, such as a program
that does not exist.

## The command

| in the command | variable | is |
|---|---|---|
| `{kubeconfig}` | `KUBECONFIG` | a kubeconfig of the API server |
| `{node}` | `NODE_NAME` | the name of the node |
| `{registry}` | `KUBELET_REGISTRAR_DIRECTORY_PATH` | for the registration socket |
| `{plugins}` | `KUBELET_PLUGINS_DIRECTORY_PATH` | for the driver's data and the socket for calls |
| `{cdi}` | `CDI_ROOT` | for CDI files |
| `{instance}` | `POD_UID` | the uid of the driver's pod: two in a rolling update |
| `{folder}` | | the folder that has `registry`, `plugins` and `cdi` |

The suite kills the driver and starts it again, and runs two at once for a while. What the driver
writes is shown where it fails.

## A driver that runs already

With `--socket` the suite uses the cluster of the kubeconfig: it writes claims into a namespace
`dray-conformance`, allocates devices that no claim has, and removes everything at the end. It has
to run on the driver's node, as root, with the right to write the status of claims. One slice of
the driver is deleted for a moment. Checks that need to end the driver are skipped. Do not use it on
a node where people work: the cluster's scheduler may choose the same device at the same time.

## With pytest

pytest has a test for each check as soon as dray is installed, besides those of your project; `-k`
chooses some:

```console
$ pytest -q -k "registration and name" --dray-driver-command "$DRIVER" examples/testing
…
1 passed, … deselected in …
```

## Drivers that pass

dray's tests make every check on its own drivers (simulated, NVIDIA on a recorded machine, the
examples), and on more than 15 drivers with one planted fault each, which must fail just the one
check.

The Go [dra-example-driver](https://github.com/kubernetes-sigs/dra-example-driver) (commit 31914ce,
with Kubernetes' helper 0.36) passes: GO_RESULT. To
repeat it:

```sh
git clone https://github.com/kubernetes-sigs/dra-example-driver
cd dra-example-driver
go build ./cmd/dra-example-kubeletplugin
dray conformance --command "./dra-example-kubeletplugin --kubeconfig {kubeconfig}"
```

The other directories come from the variables above.

## Checks

"""
GO_RESULT = "66 checks passed, 13 do not apply, in 37 s"


def page() -> str:
    rows = ["| check | required | source in Kubernetes |", "|---|---|---|"]
    rows += [
        f"| `{check.id}` | {check.requirement} | {check.source} |" for check in catalogue.CHECKS
    ]
    return HEAD.replace("GO_RESULT", GO_RESULT) + "\n".join(rows) + "\n"


def main() -> None:
    TARGET.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
