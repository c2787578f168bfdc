"""What zip and tar share: the open file, the manifest, the limits, the output."""
