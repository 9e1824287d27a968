"""From a launch command to a `RunConfig`: what it starts, what the code says, who overrides whom. Tables know."""
