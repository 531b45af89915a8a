"""How the processes of a trial use the store: a narrow interface, and a thread that writes what they report."""
