// Package run is `lockbeat run`: a command under a lock. Package guard runs the
// command; this one takes the lock, tells the guard how long it lasts, and
// frees it when no process is left.
package run
