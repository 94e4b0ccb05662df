//go:build !linux

package rig

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
