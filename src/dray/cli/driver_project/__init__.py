"""`dray driver new`: makes a project for a new driver."""
