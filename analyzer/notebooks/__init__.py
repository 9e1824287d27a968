"""Jupyter notebooks as programs: the code cells in order, and every position back in the file.

Terms: the *raw* text is the JSON of the ``.ipynb`` file. A *cell* is numbered from 1 among all cells, as they stand in
the file. The *program* is one Python text made of the code cells; everything behind `files.NotebookFiles` sees only it.

    raw                                     program
    "source": [
     "%matplotlib inline\\n",               pass
     "total = 0\\n",                        total = 0
     "for x in loader:\\n",                 for x in loader:
     "    total += loss(x)"                     total += loss(x)
    ]

Each line of the program is one line of a cell, so positions need only a line table: a column counts the characters of a
JSON string, some of which are written as escapes. Findings and edits leave with positions in the raw text (an edit's
text is escaped as the place wants it), so that annotations, diffs and ``--fix`` work as on any file; a `Cell` beside
them says where a person finds the place.
"""
