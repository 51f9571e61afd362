// Package store is the contract between an engine and what keeps its locks.
package store

import "strconv"

// Holder is who has a name, in a form that people read.
type Holder struct {
	// Node is the process's place: renewer.Config.Node, by default the host name.
	Node string
	// PID is the process's number there.
	PID int
	// Operation is what it is doing: the static name given with renewer.Request, or "".
	Operation string
	// Trace is the W3C traceparent of what it is doing, by which a trace can link to it; "" if
	// it is not traced. Like all of a Holder it comes from another process: check it before use.
	Trace string
}

// String returns "web-1 pid 4711 (email:send)", without the parts
// that are unknown, and without Trace.
func (h Holder) String() string {
	s := h.Node
	if h.PID != 0 {
		if s != "" {
			s += " "
		}
		s += "pid " + strconv.Itoa(h.PID)
	}
	if h.Operation != "" {
		if s != "" {
			s += " "
		}
		s += "(" + h.Operation + ")"
	}
	if s == "" {
		return "unknown holder"
	}
	return s
}
