"""Views of a report. Each renders the same data; none decides anything."""
