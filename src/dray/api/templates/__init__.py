"""Objects that controllers make of templates: pods of workloads, claims of pods and PodGroups."""
