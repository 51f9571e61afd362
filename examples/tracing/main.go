// Tracing shows what OpenTelemetry gets to see of locks. Three processes' worth
// of nodes, each with its own telemetry, contend for an account; one loses a
// lock, since Redis is stopped. The traces are printed as trees, with the links
// from whoever waited to whoever had the lock, and the metrics as a table.
//
//	go run ./examples/tracing                             # needs nothing else: Redis runs inside the program
//	go run ./examples/tracing -redis localhost:6379       # on your own server, which is left as it was found
//
//	# to look at it in Jaeger, Grafana or any other that speaks OTLP over HTTP:
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 go run ./examples/tracing
//
// The exit status is 1 if anything that it claims did not hold.
//
// What you would write yourself is in telemetry.go. The rest plays
// the nodes (story.go) and prints (tree.go, metrics.go).
package main

import "github.com/lockbeat/lockbeat/examples/internal/stage"

func main() { stage.Main("tracing", tell) }
