"""Commands that explain a cluster: cel, top, history, snapshot."""
