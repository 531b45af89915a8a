"""The store for workers on other machines: their calls travel over a socket, and the runner carries them out."""
