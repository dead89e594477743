//go:build tools

// Package tools names the program to build, so that `go mod tidy` keeps its module.
package tools

import _ "k8s.io/kubernetes/cmd/kube-scheduler"
