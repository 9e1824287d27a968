"""What a shell script knows at one moment, while we read it without running it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tree_sitter import Node

from estimator.launch.base import Arg


@dataclass(slots=True)
class State:
    """Variables, functions and place of one reading of the script. Copied where readings part.

    `positional` None: the arguments of the script itself, which its text does not show.
    """

    variables: dict[str, Arg] = field(default_factory=dict)
    arrays: dict[str, tuple[Arg, ...]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Node] = field(default_factory=dict)
    positional: tuple[Arg, ...] | None = None
    cwd: str = "."
    is_over: bool = False  # an `exit` was reached
    script: str = ""
    assumed: tuple[str, ...] = ()  # branches taken without knowing their condition

    def copy(self) -> State:
        """An independent state."""
        return replace(
            self,
            variables=dict(self.variables),
            arrays=dict(self.arrays),
            exported=set(self.exported),
            functions=dict(self.functions),
        )

    def assign(self, name: str, value: Arg) -> None:
        """``name=value``."""
        self.variables[name] = value
        self.arrays.pop(name, None)

    def look_up(self, name: str) -> Arg | None:
        """The value of a variable (of its first element for an array); None when the script never sets it."""
        if name in self.variables:
            return self.variables[name]
        items = self.arrays.get(name)
        return items[0] if items else None

    def same_as(self, other: State) -> bool:
        """Whether nothing that follows could tell the two apart."""
        return (
            _texts(self.variables) == _texts(other.variables)
            and {key: [item.text for item in items] for key, items in self.arrays.items()}
            == {key: [item.text for item in items] for key, items in other.arrays.items()}
            and (self.cwd, self.is_over) == (other.cwd, other.is_over)
        )


def _texts(variables: dict[str, Arg]) -> dict[str, tuple[str, str]]:
    return {name: (value.text, value.unknown) for name, value in variables.items()}
