"""The page in the browser: am I protected, what happened, bring it back. A face: it calls the actions."""
