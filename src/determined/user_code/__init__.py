"""The code of users: the program that runs, the files that belong to it, copies of them, and their import."""
