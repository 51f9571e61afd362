// Package locks has the commands that look at locks and limits, and the one
// that breaks a lease: ls, show, top and break. They ask package inspect, and
// print by package out.
package locks
