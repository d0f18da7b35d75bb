"""A body on its way to the stored form: decode, default, convert, write canonically."""
