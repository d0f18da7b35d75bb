"""kubectl's verbs, for those without kubectl, against any cluster."""
