"""Objects in whatever rclone knows."""
