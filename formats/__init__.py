"""Reading and writing what users hold: edge lists, tables, labels, JSON."""
