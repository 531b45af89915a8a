"""The search methods, one file each: settings, searcher and preview."""
