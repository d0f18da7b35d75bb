"""Commands that explain a cluster: explain, cel, top, history, snapshot."""
