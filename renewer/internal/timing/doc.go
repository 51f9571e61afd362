// Package timing is what the engine knows of time: a [Clock] that counts the
// time for which the machine was suspended, a [Wheel] that orders elements by
// instants, and a [Loop] that steps when an instant has come. It knows no
// lease.
package timing
