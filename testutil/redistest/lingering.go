package redistest

import "go.uber.org/goleak"

// Lingering lets a test binary's search for leaks pass over what a cluster's
// client leaves running for up to 5 s after its Close: a refresh that was put
// off, and the closing of connections to nodes that have left or changed.
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }
func Lingering() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	}
}
