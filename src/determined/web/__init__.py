"""The web page of `det ui`: a local server that shows the store and passes requests of the user on."""
