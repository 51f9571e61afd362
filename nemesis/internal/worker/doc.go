// Package worker is a process that takes locks, uses what they
// protect, and tells its parent of it: see package history.
package worker
