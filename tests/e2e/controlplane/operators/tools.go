//go:build tools

// Package tools names the programs that the end-to-end tests build from this module.
package tools

import (
	_ "github.com/kubeflow/mpi-operator/cmd/mpi-operator"
	_ "github.com/kubeflow/training-operator/cmd/training-operator.v1"
	_ "github.com/ray-project/kuberay/ray-operator"
)
