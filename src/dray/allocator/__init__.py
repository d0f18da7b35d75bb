"""Device allocation: upstream's first fit for claims, with a reason for every rejection."""
