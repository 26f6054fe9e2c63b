"""The fair queue: who goes next on a pool of workers, and why."""
