"""Classes of the repository that are networks, built and run as shapes: nothing is imported, no number is computed.

`values`: what a name can hold. `world`: modules, classes and names. `machine`, `statements`, `expressions` and
`attributes`: the program step by step, with a budget. `operations` and the modules that register with it: what a
library function makes of shapes. `tape`: what autograd keeps. `library/*.txt`: the layers of torch, in the language
under analysis. `survey`: one network, counted. `ask`: the networks of a script.
"""
