"""Damaged and odd programs from a seed: every way a file can be broken, and what is whole but written by nobody.

A *mutant* is a few files by path; it is the same for the same seed and sources.
"""

from __future__ import annotations

import codecs
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

Change = Callable[[bytes, random.Random], bytes]
Mutant = dict[str, bytes]

_FRAGMENTS = (
    b"*", b"**", b"(", b"[", b"{", b":=", b"lambda:", b"yield ", b"await ", b"del ", b"global x\n", b"self.",
    b"super().", b"return\n", b"break\n", b"with ", b"match x:\n    case ", b"import a.b\n",
    b"from . import *\n", b"\x00", b"\xff", b"\r", b"\t", b"\\\n", b"'''", b"f'{x", b"0x", b"9" * 40,
    b"class A(A): ", b"def f(*, a, **f): f(f)\n", b"x = x = [x, *x]\n", b"for x in x: ", b"while True: ",
    b"try: ", b"@x\n", b"# noqa\n", b"model.train()\n", b"loss.backward()\n", b"optimizer.step()\n",
)  # fmt: skip
_STATEMENTS = (
    # syntax of newer versions
    "match x:\n    case {'a': [1, *r], **kw} if r: y = r\n    case A(x=1) | B() as z: y = z\n    case -1 + 2j: 1",
    "type A[T: int, *Ts, **P] = dict[T, A]", "class B[T](A[T]):\n    x: T = model", "def f[T](x: T) -> T: return f(x)",
    "x = f'{f'{f'{model(x)}'}'}'", "x = f'{x!r:{w}.{p}}{'a' if b else \"c\"}{x=}'",
    "x = f'''{\n  model(x)  # why\n}'''",
    "x = t'{model(x)} {y!r:>{z}}'", "try: x = 1\nexcept* (A, B) as e: x = e\nfinally: x",
    "try: x = 1\nexcept A, B: x = 2",
    "async def f():\n    async with a as b, c as d:\n        return [x async for x in y if await x]",
    "with (a as b, c as d,):\n    x = b", "def f(a, /, b=1, *, c, **d): return a, *b, c",
    # walrus and star in odd places
    "if (x := (y := (z := model(x)))): x.backward()", "x = [(q := i) for i in y if (q := q)]", "x = lambda: (y := 1)",
    "f((a := 1), b=(c := 2), *(d := e), **(g := h))", "x[(i := 0)], *y[1:], z.a = *a, *b", "*x, = *x, *y",
    "for a, *b[0], (c, *d.e) in x, *y: a = b, *c", "print(*x, *(y for y in y), sep=x, **z)", "del (a, [b, c.d]), x[y]",
    # text that looks like code
    "x = 1  # type: List[int]", "def f(a,  # type: int\n      b):\n    # type: (...) -> 'A'\n    return a",
    "def f(x: 'List[' = 1, y: 'a b c ((((' = 2) -> '\\x00': pass", "x: 'lambda: (yield)' = 1",
    "# preflight: ignore[PF101,,PF9,TG\n# preflight: ignore-file[\n# noqa: ,,PF\nx = 1  # preflight: ignore",
    "'''import torch\nfrom . import *\n'''", "'\\ud800 \\N{DIGIT ONE} \\x41'",
    "x = '\u2028\x85\x0b\x1c'  # \u2029 \x1d",
    # Python 2
    "print 'a'", "exec 'x' in d", "raise A, 'b'", "x = `x` <> 0777", "def f((a, b), c): pass", "x = ur'a'; y = 10L",
    # names
    "\ufb01t = \U0001d431 = 1; fit(\ufb01t)", "\u00b5 = \u03bc", "x\u200d = 1", "\u202ex = 1",
    "__class__ = __name__ = x",
    "None = 1", "torch = nn = optim = F = model", "list = dict = range = len = print = super = list",
    # classes and calls that are about themselves
    "class A(A): pass\nA()()", "class A(B): pass\nclass B(A): pass\nA().x.y(B)",
    "class M(type):\n    def __call__(cls, *a): return cls(*a)\nclass A(metaclass=M): x = A\nA()",
    "class A(nn.Module):\n    def __init__(self): self.a = A()\n    def forward(self, x): return self(x)\nA()(A())",
    "class A:\n    def __getattr__(self, n): return getattr(self, n)\nA().b.c(A.d)",
    "def d(f):\n    @d\n    def g(*a): return g(*a)\n    return d(g)\n@d\n@d\ndef h(x): return h(d)(x)\nh(1)",
    "f = lambda f: f(f)\nf(f)(f)", "def g():\n    yield from g()\n    for i in g(): yield (yield i)\nfor i in g(): i()",
    "x = x\nx.x = x\nx.x.x.x = x.x\nx[x] = x\nx[x[x]] = x", "x = [x, (x, {'a': x})]\nx.append(x)\nx = x + x\nx += x",
    "def f(*a, **k): return f(*k, **a)\nf(f, *f(), **f(f=f))", "globals()['f'] = setattr(x, 'y', vars(x))\nexec('x')",
    "for x in x:\n    for x in x:\n        for y, x in zip(x, x): x = (y, x)\n    else: break",
    "while x:\n    try: x = (x, x)\n    except E: continue\n    finally: break\nelse: x = 1",
    "with x as x, x(x) as (x, *y): x = x",
    "@property\n@x.setter\n@staticmethod\n@classmethod\n@torch.no_grad\ndef f(self): f",
    # numbers and texts without an end
    "x = 9 ** 9 ** 9; y = 1 << 10 ** 9; z = 'a' * 10 ** 12; w = [0] * 10 ** 12",
    "x = 0x" + "f" * 5000 + "; y = {x: str(x)}",
    "x = int(1e999); y = 1 // 0; z = 0.0 ** -1; w = int('9' * 9)", "x = '%999999999d' % 1; y = f'{1:>999999999}'",
    "for i in range(10 ** 18): x = list(range(10 ** 12))",
    "x = " + "9" * 5000, "x = -1e-999, 1_0_0, 0b1, 0o7, 1.e5j, 0xF_f",
    # torch without arguments, and with too many
    "torch.optim.SGD(); torch.utils.data.DataLoader(*x, **y); nn.Linear(); nn.Sequential(*[])(); torch.load()",
    "nn.CrossEntropyLoss()()(); loss.backward(*x, **y); opt.zero_grad(1, 2, 3); torch.manual_seed(); opt.step()(opt)",
    "with torch.no_grad: pass\nwith torch.autocast(), torch.no_grad() as x: x()\ntorch.no_grad()()\ntorch.no_grad()(x)",
    "scaler.step(); scaler.scale(); scaler.unscale_(x, y); clip_grad_norm_(); sched.step(*x); sampler.set_epoch()",
    "torch.optim.SGD(params=1, lr=[], **{'lr': x}).param_groups[0]['params'][-1].grad.data.zero_()",
)  # fmt: skip
_COOKIES = (
    "latin-1", "utf-8", "utf8", "UTF-8-sig", "ascii", "cp1252", "koi8-r", "euc-jp", "shift_jis", "gbk", "big5",
    "mac-roman",
    "utf-7", "utf-16", "utf-32", "rot13", "hex", "base64", "zip", "unicode-escape", "raw-unicode-escape", "idna",
    "punycode", "undefined", "mbcs", "cp65001", "nothing", "", "../../x", "utf-8" * 50,
)  # fmt: skip
_TOKEN = re.compile(rb"\w+|\s+|[-+*/%@&|^~<>=!:.]+|.", re.DOTALL)
_INDENT = re.compile(rb"^[ \t]+", re.MULTILINE)


# --- one file ----------------------------------------------------------------------------------------------------


def _lines(source: bytes, chance: random.Random) -> bytes:
    lines = source.splitlines(keepends=True) or [b"\n"]
    first, second = sorted((chance.randrange(len(lines)), chance.randrange(len(lines))))
    piece = lines[first : min(second, first + 8) + 1]
    kind = chance.choice(("delete", "double", "move", "indent"))
    if kind == "double":
        return b"".join([*lines[:first], *piece, *lines[first:]])
    if kind == "indent":
        return b"".join([*lines[:first], *(b"    " + line for line in piece), *lines[first + len(piece) :]])
    left = [*lines[:first], *lines[first + len(piece) :]]
    place = chance.randrange(len(left) + 1) if kind == "move" else len(left)
    return b"".join([*left[:place], *(piece if kind == "move" else []), *left[place:]])


def _bytes(source: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(source) + 1)
    return source[:at] + chance.choice(_FRAGMENTS) + source[at + chance.choice((0, 0, 1, 5)) :]


def _words(source: bytes, chance: random.Random) -> bytes:
    words = source.split(b" ")
    first, second = chance.randrange(len(words)), chance.randrange(len(words))
    words[first], words[second] = words[second], words[first]
    return b" ".join(words)


def _swapped(source: bytes, chance: random.Random) -> bytes:
    """One name instead of another, everywhere: shadowing, recursion, calls of what is none."""
    names = sorted({word for word in source.replace(b"(", b" ").replace(b".", b" ").split() if word.isalnum()})
    return source.replace(chance.choice(names), chance.choice(names)) if names else source


def _tokens(source: bytes, chance: random.Random) -> bytes:
    """Tokens deleted, doubled, swapped or in place of others."""
    tokens = _TOKEN.findall(source)
    for _ in range(chance.randint(1, 4)) if tokens else ():
        one, other = chance.randrange(len(tokens)), chance.randrange(len(tokens))
        kind = chance.choice(("delete", "double", "swap", "instead"))
        if kind == "delete":
            tokens[one] = b""
        elif kind == "double":
            tokens[one] += tokens[one]
        elif kind == "swap":
            tokens[one], tokens[other] = tokens[other], tokens[one]
        else:
            tokens[one] = tokens[other]
    return b"".join(tokens)


def _indents(source: bytes, chance: random.Random) -> bytes:
    """Tabs, half levels, form feeds and missing levels."""
    odd = (b"\t", b"  ", b"   ", b"\t    ", b"    \t", b"\x0c    ", b"", b"        ", b"\xc2\xa0\xc2\xa0")
    share = chance.choice((0.02, 0.2, 1.0))
    one = chance.choice(odd)

    def changed(match: re.Match[bytes]) -> bytes:
        return match[0].replace(b"    ", one) if chance.random() < share else match[0]

    return _INDENT.sub(changed, source)


def _statement(source: bytes, chance: random.Random) -> bytes:
    """A whole statement that nobody writes, at a place where one may stand."""
    lines = source.splitlines(keepends=True) or [b"\n"]
    at = chance.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip(b" \t"))]
    text = chance.choice(_STATEMENTS).encode("utf-8", "surrogatepass")
    lines.insert(at, b"".join(indent + line + b"\n" for line in text.split(b"\n")))
    return b"".join(lines)


def _line_ends(source: bytes, chance: random.Random) -> bytes:
    end = chance.choice(
        (b"\r\n", b"\r", b"\n\r", b"\r\r\n", b"\x0c\n", b"\\\n", b"\x0b", b"\xe2\x80\xa8", b" \n", b"\n\n")
    )
    if chance.random() < 0.5:
        return source.replace(b"\n", end)
    lines = source.split(b"\n")
    return b"".join(line + (end if chance.random() < 0.3 else b"\n") for line in lines)


def _encoding(source: bytes, chance: random.Random) -> bytes:
    """A cookie, a byte order mark, other bytes than either says, or all three."""
    text = source.decode("utf-8", "replace")
    if chance.random() < 0.7:
        name = chance.choice(_COOKIES)
        form = chance.choice(
            ("# -*- coding: {} -*-\n", "#coding={}\n", "#!x\n# vim: fileencoding={}\n", "\n\n# coding: {}\n")
        )
        text = form.format(name) + text.replace("x", chance.choice(("x", "x", "\xe4", "\u30c6", "\ufb01")))
        try:
            source = text.encode(name if chance.random() < 0.5 else "utf-8")
        except (LookupError, UnicodeError, TypeError):
            source = text.encode("utf-8", "surrogatepass")
    marks = (codecs.BOM_UTF8, codecs.BOM_UTF8 * 2, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE)
    kind = chance.random()
    if kind < 0.3:
        return chance.choice(marks) + source
    return text.encode(chance.choice(("utf-16", "utf-32", "latin-1")), "replace") if kind < 0.4 else source


def _cut(source: bytes, chance: random.Random) -> bytes:
    """The file ends, or begins, anywhere; or holds what a crash leaves."""
    at = chance.randrange(len(source) + 1)
    return chance.choice((source[:at], source[at:], source[:at] + b"\x00" * 4096, source[:at] + source[at:][::-1]))


def _blocks(head: str, n: int) -> str:
    """Blocks in blocks, as many as Python takes."""
    n = min(n, 95)
    return "".join("    " * i + head.format(i) + "\n" for i in range(n)) + "    " * n + "loss.backward()"


def _deep(source: bytes, chance: random.Random) -> bytes:
    """Nested, long or wide beyond reason, up to and past the limits."""
    n = chance.choice((20, 20, 90, 90, 290, 310, 1500))
    name = chance.choice(("x", "model(x)", "loss"))
    made = chance.choice(
        (
            lambda: "x = " + "(" * n + name + ")" * n,
            lambda: "x = " + "[" * n + name + "]" * n,
            lambda: "x = " + "f(" * n + name + ")" * n,
            lambda: "x = " + name + ".a" * n,
            lambda: "x = " + name + "(1)" * n,
            lambda: "x = " + " + ".join([name] * n),
            lambda: "x = " + "not " * n + name,
            lambda: "x = " + "lambda: " * n + name,
            lambda: "x = " + name + " if y else z" * n,
            lambda: "x = " + ", ".join([name] * n * 20),
            lambda: "x = {" + ", ".join(f"'k{i}': {name}" for i in range(n * 5)) + "}",
            lambda: "x = '" + "a" * n * 100 + "'",
            lambda: "x = " + "'a' " * n,
            lambda: "x = f'" + "{x}" * n + "'",
            lambda: _blocks("for i{} in y:", n),
            lambda: _blocks("if i{}:", n),
            lambda: _blocks("with i{} as model:", n),
            lambda: "if a: x = 1\n" + "\n".join(f"elif a{i}: x = {name}" for i in range(n)),
            lambda: "x = 1\n" + "\n".join(f"if a{i}: x = (x, {name})\nelse: x = [x, x]" for i in range(n)),
            lambda: "\n".join(f"def f{i}(x): return f{i + 1}(x) + f{i + 1}(model(x))" for i in range(n)),
            lambda: "class A0(nn.Module): pass\n" + "\n".join(f"class A{i}(A{i - 1}): pass" for i in range(1, n)),
            lambda: "\n".join([f"v{i} = v{i - 1} = {name}" for i in range(n)]),
            lambda: "\n".join(["for x in y:\n    loss = model(x)\n    loss.backward()\n    opt.step()"] * min(n, 90)),
            lambda: "def f(" + ", ".join(f"a{i}={name}" for i in range(n)) + "): return a0\nf(*x)",
            lambda: "@a\n" * n + "def f(): pass",
            lambda: "#" + "x" * n * 100,
            lambda: "x = x; " * n,
        )
    )()  # fmt: skip
    at = source.rfind(b"\n", 0, chance.randrange(len(source) + 1)) + 1
    if source[at : at + 1] in b" \t":  # inside a block: at the end, where it is a statement of the module
        at = len(source)
    return source[:at] + b"\n" + made.encode() + b"\n" + source[at:]


_CHANGES: tuple[Change, ...] = (
    _lines, _bytes, _words, _swapped, _tokens, _tokens, _indents, _statement, _statement, _line_ends, _encoding, _cut,
    _deep,
)  # fmt: skip


def mutated(source: bytes, seed: int) -> bytes:
    """The file with a few things deleted, doubled, moved, swapped or put in; the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 4))):
        source = chance.choice(_CHANGES)(source, chance)
    return source


# --- several files -----------------------------------------------------------------------------------------------

_IMPORTS = (
    "from . import *", "from .{0} import *", "from .{0} import {1} as {0}", "from . import {0}", "import {0}, {1}.{0}",
    "import pkg.{0} as {1}", "from pkg import {0}, {1}", "from .. import {0}", "from ...pkg.{0} import {1}",
    "from pkg.sub import *", "from .sub.{0} import {1}", "from .{0} import ({0}, {1},)", "import pkg; pkg.pkg.{0}()",
    "from src.pkg.{0} import {1}", "try:\n    from .{0} import {1}\nexcept ImportError:\n    {1} = None",
    "__all__ = ['{0}', *{1}]", "def __getattr__(name): return __getattr__('{0}')",
    "import importlib; {0} = importlib.import_module('.{1}')",
)  # fmt: skip


def _package(sources: Sequence[bytes], chance: random.Random) -> Mutant:
    """A package whose files import themselves, each other and names that are not there."""
    names = ["a", "b", "c", "pkg", "model", "train", "__init__", "torch"]
    folders = ["pkg/", "pkg/", "pkg/sub/", "", "src/pkg/"]
    paths = {"pkg/__init__.py", "pkg/sub/__init__.py"}
    paths |= {f"{chance.choice(folders)}{chance.choice(names)}.py" for _ in range(chance.randint(2, 6))}
    made: Mutant = {}
    for path in sorted(paths):
        lines = [chance.choice(_IMPORTS).format(*chance.sample(names, 2)) for _ in range(chance.randint(1, 5))]
        calls = [f"{chance.choice(names)} = {chance.choice(names)}({chance.choice(names)})" for _ in range(3)]
        classes = [
            f"class {chance.choice(names)}({chance.choice(names)}.{chance.choice(names)}): x = {chance.choice(names)}"
        ]
        body = chance.choice(sources) if chance.random() < 0.6 else b""
        if chance.random() < 0.3:
            body = mutated(body, chance.randrange(1 << 32))
        head, tail = "\n".join([*lines, "import torch"]), "\n".join([*classes, *calls])
        made[path] = head.encode() + b"\n" + body + b"\n" + tail.encode() + b"\n"
    return made


# --- notebooks ---------------------------------------------------------------------------------------------------

_MAGICS = (
    "%matplotlib inline\n", "!pip install torch\n", "%%time\n", "%%bash\npython train.py\n", "x = !ls\n", "?torch\n",
    "torch.nn??\n", "%%writefile train.py\n", "%load_ext a\n%autoreload 2\n", "files = %sql select\n", "!{x}\n",
    "%%\n", "%\n",
    "    %time model(x)\n", "%%capture out\nfor x in y:\n", "%timeit -n 1 loss.backward()\n",
    "get_ipython().system('x')\n",
)  # fmt: skip
_ODD: tuple[Any, ...] = (
    None, 0, -1, 1e308, True, "", "x", [], {}, [[]], [None], [1, "a"], {"source": []}, "\ud800", "\x00", ["x = 1",
    "\n", 2],
)  # fmt: skip


def _notebook(sources: Sequence[bytes], chance: random.Random) -> Mutant:
    """A notebook: broken as JSON, as a notebook, or as Python; or with cells of a megabyte of output."""
    cells: list[Any] = []
    for _ in range(chance.randint(0, 4)):
        program = chance.choice(sources)
        program = mutated(program, chance.randrange(1 << 32)) if chance.random() < 0.4 else program
        lines = program.decode("utf-8", "replace").splitlines(keepends=True)
        for magic in chance.sample(_MAGICS, chance.choice((0, 0, 1, 3))):
            lines.insert(chance.choice((0, 0, len(lines) // 2)), magic)
        outputs = [{"output_type": "stream", "text": ["x" * 1000] * chance.choice((0, 1, 1000))}]
        source: Any = lines if chance.random() < 0.7 else "".join(lines)
        kind = chance.choice(("code", "code", "code", "markdown", "raw", "strange"))
        cells.append({"cell_type": kind, "metadata": {}, "source": source, "outputs": outputs, "execution_count": None})
    book: Any = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    for _ in range(chance.choice((0, 0, 1, 2))):
        book = _odd_somewhere(book, chance)
    if chance.random() < 0.1:
        book = {
            "worksheets": [{"cells": [{**cell, "input": "x"} for cell in cells]}],
            "nbformat": chance.choice((2, 3, 9)),
        }
    text = json.dumps(book, indent=chance.choice((None, 1, 4)), ensure_ascii=chance.random() < 0.5)
    written = text.encode("utf-8", "surrogatepass")
    if chance.random() < 0.3:
        written = chance.choice((_cut, _bytes, _tokens, _line_ends, _encoding))(written, chance)
    if chance.random() < 0.02:
        written = b"[" * 100_000 + b"]" * 100_000
    return {"book.ipynb": written}


def _odd_somewhere(book: Any, chance: random.Random) -> Any:
    """Something of another type anywhere in a document, or nothing there."""
    if not isinstance(book, (dict, list)) or not book or chance.random() < 0.15:
        return chance.choice(_ODD)
    key = chance.choice(sorted(book)) if isinstance(book, dict) else chance.randrange(len(book))
    if isinstance(book, dict) and chance.random() < 0.2:
        return {name: value for name, value in book.items() if name != key}
    changed = _odd_somewhere(book[key], chance)
    if isinstance(book, dict):
        return {**book, key: changed}
    return [*book[:key], changed, *book[key + 1 :]]


def mutant(sources: Sequence[bytes], seed: int) -> Mutant:
    """Some files: of four in five seeds one damaged program, else a package or a notebook."""
    chance = random.Random(seed)
    kind = chance.random()
    if kind < 0.1:
        return _package(sources, chance)
    if kind < 0.2:
        return _notebook(sources, chance)
    return {"mutant.py": mutated(sources[seed % len(sources)], seed)}
