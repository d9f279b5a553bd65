"""Prints the table of a file of figures: table.py FILE."""
import sys

from figures import Figures

print(Figures(sys.argv[1]).table())
