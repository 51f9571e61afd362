package tracing

// Printable is printable, and Remote what a traceparent leads to.
var (
	Printable = printable
	Remote    = remote
)
