package redisstore

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// doApart is client.DoMulti for commands of which one has the server wait, for as long as it says.
// They go by a connection of the client's pool for blocking commands: what others send by the one
// that all share would wait behind them, heartbeats too. It returns when ctx ends.
func (d *direct) doApart(
	ctx context.Context, client rueidis.Client, wait time.Duration, commands ...rueidis.Completed,
) []rueidis.RedisResult {
	n := len(commands) // the goroutine has them from here on
	done := make(chan []rueidis.RedisResult, 1)
	go func() {
		call := beginCall(ctx, wait+d.answer)
		defer call.end()
		done <- client.DoMulti(call, commands...)
	}()
	select {
	case results := <-done:
		for i, r := range results {
			results[i] = ended(ctx, r)
		}
		return results
	case <-ctx.Done():
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(ctx.Err())}, n)
	}
}
