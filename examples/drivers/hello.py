"""A driver with two imaginary devices. Under `dray up`, on its node gpu-0:

python examples/drivers/hello.py --node gpu-0 --folder ~/.local/share/dray/nodes/gpu-0
"""

from __future__ import annotations

from collections.abc import Iterable

from dray import driverkit


class Hello(driverkit.Driver):
    name = "hello.example.com"

    def devices(self) -> Iterable[driverkit.Device]:
        yield driverkit.device("hello-0", greeting="hello", loud=False)
        yield driverkit.device("hello-1", greeting="ahoy", loud=True)

    def prepare(self, allocated: driverkit.Allocated) -> driverkit.Edits:
        greeting = allocated.attribute("greeting")
        for parameters in allocated.config:
            greeting = parameters.get("greeting", greeting)
        return driverkit.Edits(env={"GREETING": f"{greeting} from {allocated.name}"})


if __name__ == "__main__":
    driverkit.main(Hello())
