package repeat

// Bound is what an answer is bound to that is sealed for the request with a
// fingerprint, under a name.
func Bound(name, input string) []byte { return (&Request{name: name, input: input}).bound() }
