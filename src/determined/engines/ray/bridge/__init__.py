"""The child process of a runner that alone talks to Ray."""
