// Package integration holds the tests that need frameworks which no user should have to download
// with a lock: gRPC, chi, OpenTelemetry's SDK and instrumentations, Prometheus. They are a
// module of their own, so that the library's go.mod names none of these. A folder is named after
// the package that its tests are about.
package integration
