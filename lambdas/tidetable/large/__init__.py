"""Large values: data too large or too costly for an item is compressed or stored elsewhere; reads complete it."""
