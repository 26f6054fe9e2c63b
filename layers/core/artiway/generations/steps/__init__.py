"""The steps of the worker: validate, decide, guard, execute, publish, clean up."""
