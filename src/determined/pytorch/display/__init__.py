"""Shows the progress of training to the user, on a terminal and in notebooks."""
