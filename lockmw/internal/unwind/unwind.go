// Package unwind runs a function and what must follow it, also if the function
// does not return.
package unwind

import "errors"

// Err stands for the error of a function that panicked or called
// runtime.Goexit.
var Err = errors.New("lockbeat: the operation did not return")

// Then calls fn, then after with fn's error, and returns what after returns. If
// fn panics or calls runtime.Goexit, after gets [Err] and the panic or the exit
// goes on: it is not recovered, so that what it prints stays as it was. A
// process in such a state may be in disorder, so after should free what fn held
// for every process, and hand it to none that waits in this one.
func Then(fn func() error, after func(error) error) (err error) {
	defer func() { err = after(err) }()
	err = Err // unless fn returns
	return fn()
}
