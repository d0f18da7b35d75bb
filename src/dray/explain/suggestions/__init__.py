"""Changes to a claim that would make it fit."""
