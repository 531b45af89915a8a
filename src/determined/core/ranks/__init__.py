"""Communication between the ranks of a trial, without torch at import."""
