"""The few widgets that the screens are built of."""
