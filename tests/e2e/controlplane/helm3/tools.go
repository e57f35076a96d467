//go:build tools

// Package tools names the programs that the end-to-end tests build from this module.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
