"""What is reported, sent to services beside the store by their own clients; training never waits for one."""
