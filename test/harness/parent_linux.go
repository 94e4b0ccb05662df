package harness

import "syscall"

// endWithParent kills a process also when the tests themselves were killed.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
