"""What the page shows beyond what the commands do: days in a row, copies and what each of them survives."""
