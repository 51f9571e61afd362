//go:build unix

// Package guard starts a command and sees to it that none of its processes is
// left when the lock that it runs under can be another's.
//
// Two processes watch each other. The wrapper is `lockbeat run`: it renews the
// lease, starts the guard, and tells it at each renewal until when the command
// may run. The guard is the same program once more, in a process group of its
// own: it starts the command, and asks no server.
//
//	the lease nears its end: the link is cut, or the wrapper is stopped   the guard ends it
//	the wrapper dies: its socket closes                                   the guard ends it
//	the guard dies, or is stopped                                         the wrapper ends it
//	the guard has not ended it in time                                    the wrapper ends it
//	the command ends by itself                                            the guard ends the rest
//
// To end the command is to end every process below the guard: SIGTERM, and
// SIGKILL after a grace, which is cut short so that all are dead before the
// lease can end at the server. On a busy machine they are found late, so the
// wrapper has that begin earlier, by the time that a look takes. Package tree
// says what is below. Only when nothing is left does the guard say how the
// command ended, and only then is the lock released.
//
// Instants pass between the two as numbers of a clock that both read, which
// goes on while they are stopped and, on Linux, while the machine is suspended.
//
// What neither can do anything about: both killed at once. Then the command
// itself dies too (on Linux), but what it has started is left. The guard has a
// name of its own, so that a kill by the program's name does not do that.
package guard
