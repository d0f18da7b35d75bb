"""The checks of lint: of one object, of several together, and of the scheduling decision."""
