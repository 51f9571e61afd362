//go:build race

package tracing_test

// raceAllocs is what the race detector adds to acquire and release.
const raceAllocs = 1
