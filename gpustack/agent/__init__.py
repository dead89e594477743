"""The node agent: it carries out decisions about GPUs on one host.

`kubelet` serves the kubelet, `cluster` watches and patches pods, `containers` turns an Allocate
call into a container's devices and limits, `node` describes the host, `web` serves HTTP.
`app` wires them together; they receive plain values and know no configuration.
"""
