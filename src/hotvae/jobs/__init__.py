"""Whole jobs on files, one function each: what the command line calls, and what Python can call as well.

Arguments have the names of the options of the command line, and messages name these options: ``--id-column`` is
``id_column``.
"""
