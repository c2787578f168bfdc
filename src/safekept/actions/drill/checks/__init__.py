"""The checks of a drill: each looks at a restored home and gives one row, or a few, of the receipt."""
