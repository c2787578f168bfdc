"""Objects on another machine, over SFTP."""
