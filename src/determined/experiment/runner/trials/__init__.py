"""The processes of one trial, as its runner handles them."""
