"""The runner of an experiment: joins the searcher, the engine and the store."""
