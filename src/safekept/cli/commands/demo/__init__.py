"""`demo`, and the throwaway home it works on."""
