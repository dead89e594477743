"""The node agent: it carries out decisions about GPUs on one host.

`kubelet` speaks to the kubelet, `cluster` sees and writes pods, `containers` turns an Allocate
call into a container's devices and limits, `node` describes the host, `web` answers questions.
`app` wires them together; they receive plain values and know no configuration.
"""
