"""`topo-master cleanup`: removes everything that masters wrote in the cluster, and nothing else.

It works while masters still run, as they do when a chart is uninstalled: it takes the lease first.
The leader ends when it sees another holder, at the latest at the end of its term, so that term is
awaited. Followers, and masters that start later, respect the new term as any leader's, also for its
time after the lease is deleted at the end.

Then the webhook is removed: followers would gate pods as long as they run, and nothing would open
them. Gates are opened, and the labels that their pods select are removed once these are bound. On
the node of a bound pod its label stays: a kubelet that restarts fails pods whose node lacks it.

Kubernetes records what this product wrote: fields of nodes that a manager of ours owns, and
HyperNodes and ConfigMaps with our label. A field with another owner, too, stays theirs.

It repeats until it finds nothing more, so it may be run again, and completes an earlier run.
"""
