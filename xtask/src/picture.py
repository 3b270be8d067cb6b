"""Prints for each rectangle of a picture its number of colours, and the share not in the most frequent colour (drawn).

usage: picture.py FILE RECTANGLES, with RECTANGLES as JSON [[left, top, width, height], ...]. Prints JSON
[{"colours", "drawn"}, ...].
"""

import json
import sys

from PIL import Image


def told(picture, left, top, width, height):
    part = picture.crop((left, top, left + width, top + height))
    counts = [count for count, _ in part.getcolors(maxcolors=part.width * part.height)]
    return {"colours": len(counts), "drawn": 1 - max(counts) / sum(counts)}


def main(path, rectangles):
    picture = Image.open(path).convert("RGB")
    print(json.dumps([told(picture, *map(round, rectangle)) for rectangle in rectangles]))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
