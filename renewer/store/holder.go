// Package store is the contract between the engine, package renewer, and what
// keeps its locks.
package store

import "strconv"

// Holder is who has a name, for people.
type Holder struct {
	Node      string // renewer.Config.Node, by default the host name
	PID       int
	Operation string // that of the renewer.Request, or ""
	// Trace is its W3C traceparent, or "". Like all of a Holder it comes from
	// another process: check it before use.
	Trace string
}

// String returns "web-1 pid 4711 (email:send)", without what is unknown, and
// without Trace.
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
