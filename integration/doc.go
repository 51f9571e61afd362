// Package integration holds the tests that need what no user should have to download with a lock:
// gRPC, chi, OpenTelemetry's SDK and instrumentations, Prometheus, database drivers, other
// libraries of locks. They are a module of their own, so that the library's go.mod names none of
// these. A folder is named after what its tests are about.
package integration
