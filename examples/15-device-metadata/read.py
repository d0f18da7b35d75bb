"""What a program in the container knows about its devices."""

from __future__ import annotations

from dray import devicemetadata

named = devicemetadata.for_claim("gpu-claim", "gpu")
made = devicemetadata.for_template("made", "gpu")
for metadata in (named, made):
    for device in metadata.devices:
        print(metadata.claim, device.name, device.attributes["productName"])
