// Package proxy is a TCP proxy on the loopback interface that makes a
// link slow, silent, lossy or broken on demand.
//
//	link, err := proxy.New(server.Addr())
//	defer link.Close()
//	// connect clients to link.Addr(), then, at any time:
//	link.Delay(15 * time.Millisecond)   // a round trip of 30 ms
//	link.Blackhole(proxy.Both)          // a partition: nothing arrives
//	link.Heal()                         // what was held back arrives now
//	link.DropReply(1, proxy.ThenReset)  // a request takes effect, its reply is lost
//	link.Turn(other.Addr())             // a fail-over: new connections lead elsewhere
//
// A fault applies to present and later connections, from when the method
// returns. Bytes that were past the proxy by then are not affected.
//
// The proxy knows RESP, the protocol of Redis, well enough to know where a
// reply ends: DropReply and DropMatching drop whole replies and pushed
// messages, however they are cut into packets. Any other protocol passes too;
// there, each read from the socket counts as one reply.
//
// It is test code: no production package may import it.
package proxy
