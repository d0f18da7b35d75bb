"""Revisioned state: one interface, kept in memory, in SQLite or in etcd."""
