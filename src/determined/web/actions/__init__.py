"""Actions of the page: their requests, which of them are possible, and the functions that carry them out."""
