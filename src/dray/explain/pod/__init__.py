"""Progress of a pod from quota to containers, as data and text."""
