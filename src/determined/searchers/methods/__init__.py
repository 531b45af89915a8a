"""The search methods, one file each: settings, rules and preview; `build` returns the state machine of the search."""
