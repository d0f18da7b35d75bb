"""Rules for the kinds of resource.k8s.io: what drivers publish, what people claim."""
