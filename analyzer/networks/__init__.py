"""Classes of the repository that are networks, built and run as shapes: nothing is imported, no number is computed.

`values`: what a name can hold. `world`: modules, classes and names. `machine`: statements and expressions, step by step
and with a budget. `tensors` and `operations`: what a library function makes of shapes and what autograd keeps for it.
`library/*.txt`: the layers of torch, in the language under analysis. `survey`: one network, counted.
"""
