"""TPC-H: its tables, its 22 queries, data and changes of it, and answers to compare."""
