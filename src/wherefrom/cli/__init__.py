"""The command line: thin commands over the Python interface, one file each."""
