"""The command line, in small pieces: readers, checks, ledger file, output, and one module per group
of commands.
"""
