"""Large values. If an event's data is too large or too costly for an item, it is compressed or stored elsewhere.

Reads complete it.
"""
