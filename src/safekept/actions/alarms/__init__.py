"""What a person must hear of, and how it reaches them."""
