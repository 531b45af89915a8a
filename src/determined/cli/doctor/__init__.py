"""`det doctor`: check the installation. One module for each area that is checked."""
