// Package redistest runs private redis-server processes for tests of what
// only a real server can prove: freezing it, killing it, starting it again.
//
//	server := redistest.Start(t)      // on a free loopback port, empty, without persistence
//	client := server.Client(t)        // closed when the test ends
//	require.NoError(t, server.Stop()) // SIGSTOP: it answers nothing, yet its clocks run on
//
// [StartCluster] starts a Redis Cluster, of which a test can move slots,
// stopping half-way; [StartSentinel] a primary and a replica under three
// Sentinels; [StartEach] servers that know nothing of each other. Their nodes
// are Servers, to be frozen and killed one by one.
//
// A server belongs to the process that started it: it is killed when the test
// ends and, on Linux, when the process dies in any way. Its log is shown when
// the test fails.
//
// Where redis-server is not installed, [Start] skips the test with a line that
// says so. With LOCKBEAT_REQUIRE_REDIS=1 in the environment it fails the test
// instead, so that a run which must prove something can't pass by skipping.
//
// The package needs Unix signals and is empty elsewhere. It is test
// code: no production package may import it.
package redistest
