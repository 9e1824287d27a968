"""Ways to nest source text, each a function of the depth."""

from __future__ import annotations

from collections.abc import Callable

Shape = Callable[[int], str]

SHAPES: dict[str, Shape] = {
    "parentheses": lambda n: "x = " + "(" * n + "1" + ")" * n + "\n",
    "lists": lambda n: "x = " + "[" * n + "1" + "]" * n + "\n",
    "dicts": lambda n: "x = " + "{1:" * n + "1" + "}" * n + "\n",
    "calls": lambda n: "x = " + "f(" * n + "1" + ")" * n + "\n",
    "subscripts": lambda n: "x = " + "f[" * n + "1" + "]" * n + "\n",
    "attributes": lambda n: "x = a" + ".b" * n + "\n",
    "call chain": lambda n: "x = a" + "()" * n + "\n",
    "subscript chain": lambda n: "x = a" + "[0]" * n + "\n",
    "sum": lambda n: "x = 1" + " + 1" * n + "\n",
    "power": lambda n: "x = 1" + " ** 1" * n + "\n",
    "minus": lambda n: "x = " + "-" * n + "1\n",
    "not": lambda n: "x = " + "not " * n + "1\n",
    "and": lambda n: "x = 1" + " and 1" * n + "\n",
    "comparison": lambda n: "x = 1" + " < 1" * n + "\n",
    "ternary": lambda n: "x = 1" + " if 1 else 1" * n + "\n",
    "lambda": lambda n: "x = " + "lambda: " * n + "1\n",
    "elif": lambda n: "if x: pass\n" + "elif x: pass\n" * n,
    "elif blocks": lambda n: "if x:\n pass\n" + "elif x:\n pass\n" * n,
    "adjacent strings": lambda n: "x = " + '"a" ' * (n + 1) + "\n",
    "adjacent f-strings": lambda n: "x = " + 'f"a" ' * (n + 1) + "\n",
    "dotted import": lambda n: "import a" + ".a" * n + "\n",
    "f-string format": lambda n: 'x = f"{a:' + "{b:" * n + "}" * n + '}"\n',
    "f-string brackets": lambda n: 'x = f"{' + "(" * n + "1" + ")" * n + '}"\n',
    "annotation": lambda n: "x: " + "a[" * n + "b" + "]" * n + " = 1\n",
    "del": lambda n: "del " + "(" * n + "a" + ")" * n + "\n",
}
