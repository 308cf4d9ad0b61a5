"""How a command gets to the nodes. One module a way; all of them answer alike."""
