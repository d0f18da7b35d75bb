"""Commands that explain a cluster: cel, top, snapshot."""
