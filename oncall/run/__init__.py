"""What a run is: its file, its nodes and its rank map."""
