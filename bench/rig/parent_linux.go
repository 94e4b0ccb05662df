package rig

import "syscall"

// endWithParent has a process end when this one does, however it ends.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
