"""Engines: how a step's picture is made. One interface, chosen per node type by configuration."""
