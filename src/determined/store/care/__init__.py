"""What keeps a store well: what it holds, whether it is whole, copies of it, room in it."""
