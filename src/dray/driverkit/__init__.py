"""Write a driver: devices in, ResourceSlices, prepared claims, CDI and metadata files out."""
