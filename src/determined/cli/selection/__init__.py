"""Which objects a command is about: ids, filters, completion."""
