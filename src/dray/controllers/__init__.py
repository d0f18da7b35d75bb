"""The loops that keep what is there in step with what is asked for."""
