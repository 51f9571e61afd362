package renewer

import "strconv"

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
