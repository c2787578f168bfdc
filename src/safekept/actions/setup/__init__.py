"""The first hour and the last: set everything up in one go, and take it away again."""
