"""Rules of admission as pure functions, for the API server and for plans."""
