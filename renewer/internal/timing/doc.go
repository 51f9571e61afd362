// Package timing is what the engine knows of time: a [Clock] that counts the time for which the
// machine was suspended. It knows no lease.
package timing
