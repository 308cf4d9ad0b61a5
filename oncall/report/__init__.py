"""What an incident amounts to, as text and as JSON. Neither says anything that the other does not."""
