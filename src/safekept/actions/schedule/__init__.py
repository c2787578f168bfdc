"""Every night, without anybody being there."""
