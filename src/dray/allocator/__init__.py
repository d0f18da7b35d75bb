"""Which devices: claims times devices, upstream's first fit, and the reasons for every refusal."""
