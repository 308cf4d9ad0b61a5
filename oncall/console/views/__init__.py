"""From a snapshot to rows: one pure module for each pane."""
