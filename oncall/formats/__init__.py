"""Parsers of the field's text formats: bytes in, events out. They open no file and know no run."""
