"""What a script starts, without running it: assignments, defaults, quoting, arrays, branches, nesting."""

from __future__ import annotations

import pytest

from estimator.launch.base import UnreadableLaunch
from estimator.launch.shell_run import MAX_READINGS, Run, Started
from estimator.launch.shell_state import State
from tests.estimator.launch.trees import Tree


def started(script: str | bytes, files: dict[str, str | bytes] | None = None, path: str = "run.sh") -> list[Started]:
    run = Run(files=Tree(files or {}), path=path)
    run.script(script if isinstance(script, bytes) else script.encode(), State(script=path))
    return run.started


def commands(script: str, files: dict[str, str | bytes] | None = None, path: str = "run.sh") -> list[str]:
    """Each started command, its words joined with ``|``; a word that is not known ends with ``?``."""
    return [
        "|".join(word.text + ("?" if word.unknown else "") for word in item.words)
        for item in started(script, files, path)
    ]


RESOLVED = [
    ("plain", "python t.py --lr 1e-4", "python|t.py|--lr|1e-4"),
    ("variable", "BS=8\npython t.py --bs $BS", "python|t.py|--bs|8"),
    ("braces beside text", "N=7\npython t.py out_${N}b.pt", "python|t.py|out_7b.pt"),
    ("later assignment wins", "A=1\nA=2\npython $A", "python|2"),
    ("double quotes keep blanks", 'A="x y"\npython "$A"', "python|x y"),
    ("unquoted splits", 'A="x  y"\npython $A z', "python|x|y|z"),
    ("single quotes are literal", "A=1\npython '$A'", "python|$A"),
    ("blank between expansions", 'A=1\nB=2\npython "$A $B"', "python|1 2"),
    ("escaped dollar", 'A=1\npython "\\$A"', "python|$A"),
    ("empty unquoted vanishes", "A=\npython $A x", "python|x"),
    ("empty quoted stays", 'A=\npython "$A" x', "python||x"),
    ("continuation", "python \\\n  t.py \\\n  --bs 4", "python|t.py|--bs|4"),
    ("comment after a word", "python t.py # --bs 9", "python|t.py"),
    ("hash inside a word", "python a#b", "python|a#b"),
    ("default", "python ${X:-8}", "python|8"),
    ("default of a set variable", "X=4\npython ${X:-8}", "python|4"),
    ("default that is an expansion", "D=3\npython ${X:-$D}", "python|3"),
    ("assigning default", ': "${X:=5}"\npython $X', "python|5"),
    ("alternative", "X=1\npython ${X:+--flag} ${Y:+--other}", "python|--flag"),
    ("positional default keeps inner quotes out of shells", "python ${1:-Org/Model}", "python|Org/Model"),
    ("prefix removed", "F=a/b/c.yaml\npython ${F##*/}", "python|c.yaml"),
    ("suffix removed", "F=c.tar.gz\npython ${F%%.*} ${F%.*}", "python|c|c.tar"),
    ("length", "F=abcd\npython ${#F}", "python|4"),
    ("upper case", "F=ab\npython ${F^^}", "python|AB"),
    ("arithmetic", "A=4\nB=2\npython $((A * B + 1)) $(( $A / 3 ))", "python|9|1"),
    ("ternary and shift", "A=4\npython $(( A > 3 ? 1 << 4 : 0 ))", "python|16"),
    ("array", 'A=(--x 1 "y z")\npython "${A[@]}"', "python|--x|1|y z"),
    ("array with comments", 'A=(\n --x # why\n 1\n)\npython "${A[@]}"', "python|--x|1"),
    ("array appended", 'A=(--x)\nA+=(--y)\npython "${A[@]}"', "python|--x|--y"),
    ("declared array", 'declare -a A=(--x)\npython "${A[@]}"', "python|--x"),
    ("array element and count", "A=(p q r)\npython ${A[1]} ${#A[@]}", "python|q|3"),
    ("text appended", "A=a\nA+=b\npython $A", "python|ab"),
    ("export", "export A=5\npython $A", "python|5"),
    ("substitution is unknown", "N=$(nvidia-smi -L | wc -l)\npython --n=$N", "python|--n=$(nvidia-smi…)?"),
    ("unset is unknown", "python --n $N", "python|--n|$N?"),
    ("unknown poisons the word only", "A=1\npython $A$N $A", "python|1$N?|1"),
    ("own folder", 'D="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\npython $D/t.py', "python|./t.py"),
    ("true branch", "N=2\nif [ $N -le 4 ]; then A=1; else A=2; fi\npython $A", "python|1"),
    ("false branch", 'N=9\nif [[ "$N" == "8" ]]; then A=1; elif (( N > 8 )); then A=2; fi\npython $A', "python|2"),
    ("unset counts as empty", 'if [ -z "$N" ]; then N=8; fi\npython $N', "python|8"),
    ("case", "M=b\ncase $M in a) A=1;; b|c) A=2;; *) A=3;; esac\npython $A", "python|2"),
    ("function", "f() { python t.py $1; }\nf 7", "python|t.py|7"),
    ("eval", 'C="python t.py"\neval "$C --x"', "python|t.py|--x"),
    ("bash -c", 'C=t.py\nsrun bash -c "python $C \\$SLURM_PROCID"', "srun|python|t.py|$SLURM_PROCID?"),
    ("exec", "exec python t.py", "python|t.py"),
    ("set --", "set -- a b\npython $2 $#", "python|b|2"),
    ("quoted heredoc is data", "cat <<'EOF' >/dev/null\npython fake.py\nEOF\npython t.py", "cat*python|t.py"),
    (
        "an unknown part spoils its own word only",
        'C="--a 1 --ip $(hostname -i) --b 2"\npython $C',
        "python|--a|1|--ip|$(hostname…)?|--b|2",
    ),
    ("an array that is never set is empty", 'srun "${A[@]}" python t.py', "srun|python|t.py"),
    ("after exit", "python t.py\nexit 0\npython u.py", "python|t.py"),
    ("failure branch", "[ -d data ] || { echo no; exit 1; }\npython t.py", "python|t.py"),
]


@pytest.mark.parametrize(("script", "expected"), [case[1:] for case in RESOLVED], ids=[case[0] for case in RESOLVED])
def test_words_are_resolved_as_bash_would(script: str, expected: str) -> None:
    assert expected == "*".join(commands(script))


READINGS = [
    ("unknown condition", "if [ -f x ]; then A=1; else A=2; fi\npython $A", ["python|1", "python|2"]),
    (
        "unknown chain",
        "if [ $N -le 4 ]; then A=1; elif [ $N -le 8 ]; then A=2; fi\npython ${A:-3}",
        ["python|1", "python|2", "python|3"],
    ),
    ("unknown case", "case $M in a) A=1;; *) A=2;; esac\npython $A", ["python|1", "python|2"]),
    ("usage check", "if [ $# -lt 1 ]; then echo usage; exit 1; fi\npython t.py", ["python|t.py"]),
    ("loop over words", "for lr in 1 2; do python t.py $lr; done", ["python|t.py|1", "python|t.py|2"]),
    ("loop over a glob", "for f in $(ls); do python t.py $f; done", ["python|t.py|$f?"]),
    ("while assigns", "N=1\nwhile true; do N=$((N+1)); done\npython $N", ["python|$((N+1))?"]),
    ("both sides of a pipe", "python a.py | tee log", ["python|a.py", "tee|log"]),
    ("background jobs", "python a.py &\npython b.py\nwait", ["python|a.py", "python|b.py"]),
    ("subshell keeps its variables", "A=1\n(A=2; python $A)\npython $A", ["python|2", "python|1"]),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), [case[1:] for case in READINGS], ids=[case[0] for case in READINGS])
def test_undecided_conditions_part_the_readings(script: str, expected: list[str]) -> None:
    assert expected == commands(script)


def test_a_word_belongs_to_the_line_that_gives_its_value() -> None:
    (item,) = started("BS=8\n\npython t.py --bs $BS")
    assert [(w.text, w.line, w.name) for w in item.words[1:]] == [("t.py", 3, ""), ("--bs", 3, ""), ("8", 1, "BS")]


def test_environment_is_what_is_exported_and_what_stands_before_the_command() -> None:
    (item,) = started("export A=1\nB=2\nC=3 python t.py")
    assert {name: value.text for name, value in item.env.items()} == {"A": "1", "C": "3"}


def test_sourced_and_started_scripts_of_the_tree_are_followed() -> None:
    files: dict[str, str | bytes] = {
        "env.sh": "BS=16\n", "inner.sh": "python t.py --bs $1 --lr ${LR:-1}\n", "unseen.sh": "python never.py\n",
    }  # fmt: skip
    script = "source env.sh\nexport LR=5\nsource ~/venv/bin/activate\nsrun bash inner.sh $BS"
    assert commands(script, files) == ["srun|python|t.py|--bs|16|--lr|5"]


def test_cd_moves_the_place_where_scripts_are_looked_for() -> None:
    (item,) = started('cd "$(dirname "$0")/.."\npython t.py', path="scripts/run.sh")
    assert item.cwd == "."


def test_too_many_readings_leave_what_differs_unknown() -> None:
    branches = "\n".join(f"if [ -f {index} ]; then A{index}=1; else A{index}=2; fi" for index in range(6))
    found = started(f"{branches}\nB=7\npython $A0 $B")
    assert 1 <= len(found) <= MAX_READINGS
    assert {"7"} == {item.words[2].text for item in found}


HOSTILE = [
    ("nul", b"\0" * 1000, "NUL"),
    ("huge", b"echo x\n" * 200_000, "256 KiB"),
    ("heredocs", b"cat <<A\n" * 1000, "here-documents"),
    ("deep substitution", b"echo " + b"$(" * 5000 + b"x" + b")" * 5000, "nested"),
    ("deep groups", b"if true; then " * 500 + b"python t.py" + b"; fi" * 500, "nested"),
    ("long and-list", b"a && " * 5000 + b"b", "nested"),
    ("endless loops", b"for a in 1 2 3 4 5 6 7 8 9; do " * 6 + b"python t.py; " + b"done; " * 6, "more than"),
]


@pytest.mark.parametrize(("script", "reason"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_scripts_are_refused_with_a_reason(script: bytes, reason: str) -> None:
    with pytest.raises(UnreadableLaunch, match=reason):
        started(script)


HARMLESS = [
    ("latin-1 bytes", b"python t.py --name caf\xe9\n"),
    ("unclosed quote", b'python t.py\necho "never closed\n'),
    ("unclosed substitution", b"python t.py\n" + b"$(" * 2000),
    ("self call", b"f() { f; }\nf\npython t.py\n"),
    ("windows line ends", b"python t.py\r\nA=1\r\n"),
    ("exponential text", b"A=aaaaaaaaaa\n" + b'A="$A$A$A$A"\n' * 40 + b"python t.py\n"),
    ("arithmetic bomb", b"A=$((9**9**9**9))\npython t.py\n"),
    ("self source", b"source run.sh\npython t.py\n"),
]


@pytest.mark.parametrize("script", [case[1] for case in HARMLESS], ids=[case[0] for case in HARMLESS])
def test_odd_scripts_still_show_their_command(script: bytes) -> None:
    found = started(script, {"run.sh": script})
    assert [word.text for word in found[-1].words[:2]] == ["python", "t.py"]
