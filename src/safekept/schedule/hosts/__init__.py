"""How a host is asked to wake us: systemd, launchd or cron. Texts only; nothing is written here."""
