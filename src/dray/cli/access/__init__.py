"""Commands for the credentials of users."""
