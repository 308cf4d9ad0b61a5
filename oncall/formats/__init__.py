"""Parsers of the field's text formats: bytes in, events out. They open no file and know no run.

The kinds of events, their fields and the rules for what is not known are in `oncall.formats.kinds`.
"""
