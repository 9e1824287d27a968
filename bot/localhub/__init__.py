"""A local GitHub for the demo and the tests: real git repositories served as pull requests over HTTP.

It is a stranger to Preflight: nothing here imports the rest of `bot`, `analyzer` or `estimator`. What it knows comes
from git and from GitHub's documentation, so that a misunderstanding of ours meets a refusal and not an accomplice.

`model` the things, `state` the one place that holds them, `gitrepo` and `patches` read git, `access` who may do what,
`rules` what GitHub refuses, `payloads` the JSON bodies, `routes` the REST areas, `graphql` the queries, `people` what a
person does (push, comment, press a button), `webhooks` the deliveries, `faults` the bad days, `recorder` what crossed.
"""
