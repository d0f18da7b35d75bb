"""What is deployed on other clusters: images and Helm charts."""
