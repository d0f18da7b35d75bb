"""`dray lint` in the pipelines of others: the steps run as their runners would run them."""
