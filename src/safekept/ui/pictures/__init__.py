"""Pictures for the page, made here as inline SVG; every one has a table behind it."""
