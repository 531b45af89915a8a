"""Tables, columns, JSON and text for terminals."""
