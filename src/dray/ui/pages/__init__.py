"""The documents of the dashboard's pages, made when they are asked for."""
