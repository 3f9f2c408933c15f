"""python -m wherefrom"""

from wherefrom.cli.main import main

main()
