"""The loops of Dynamic Resource Allocation: claims, device taints, pools."""
