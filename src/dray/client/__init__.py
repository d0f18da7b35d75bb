"""The API from outside: verbs over a transport, watched copies, work queues, leases, events."""
