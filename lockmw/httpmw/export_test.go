package httpmw

// BodyBefore is how many bytes of body are read before the lock.
const BodyBefore = bodyBefore

// Resource is what PathValue makes of a pattern.
func Resource(pattern, name string, value func(string) string) (string, bool) {
	return resource(pattern, name, value)
}

// Plain takes percent-encoding off.
func Plain(s string) string { return plain(s) }
