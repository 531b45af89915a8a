"""Start one worker process for every slot."""
