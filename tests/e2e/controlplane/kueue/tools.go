//go:build tools

// Package tools names the program that the end-to-end tests build from this module.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
