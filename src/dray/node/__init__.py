"""What runs on a node: pods started, stopped and reported, with the devices of their claims."""
