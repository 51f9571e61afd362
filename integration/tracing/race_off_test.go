//go:build !race

package tracing_test

// raceAllocs is what the race detector would add to acquire and release.
const raceAllocs = 0
