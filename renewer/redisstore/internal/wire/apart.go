package wire

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// DoApart is client.DoMulti for commands of which one has the server wait, for
// as long as it says. They go by a connection of the client's pool for blocking
// commands: what others send by the one that all share would wait behind them,
// heartbeats too. It returns when ctx ends.
func DoApart(
	ctx context.Context, client rueidis.Client, within time.Duration,
	commands ...rueidis.Completed,
) []rueidis.RedisResult {
	n := len(commands) // the goroutine has them from here on
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		done <- client.DoMulti(ctx, commands...)
	}()
	select {
	case results := <-done:
		return results
	case <-ctx.Done():
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(ctx.Err())}, n)
	}
}

// ServerOf is a client of the server that has a slot, as far as that is known.
func (s *Sender) ServerOf(slot uint16) rueidis.Client {
	if s.Topology == nil {
		return s.Client
	}
	nodes := s.Client.Nodes()
	if node := nodes[s.Topology.Addr(slot)]; node != nil {
		return node
	}
	for _, node := range nodes {
		return node // which will tell
	}
	return s.Client
}

// MovedTo is a client of the server where, as another says, the lock
// has moved to; nil if it has not, or if the client does not know that server.
func (s *Sender) MovedTo(ctx context.Context, r rueidis.RedisResult, key string) rueidis.Client {
	answer, ok := rueidis.IsRedisErr(r.Error())
	if !ok || s.Topology == nil {
		return nil
	}
	addr, ok := answer.IsMoved()
	if !ok {
		return nil
	}
	if node := s.Client.Nodes()[addr]; node != nil {
		return node
	}
	// A server that is new to the client: a command of which it
	// follows the redirection itself makes it look around.
	_ = Do(ctx, s.Client, s.Client.B().Get().Key(key).Build()).Error()
	return s.Client.Nodes()[addr]
}
