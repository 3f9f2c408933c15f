"""python -m whence"""

from whence.cli import main

main()
