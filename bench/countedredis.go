package main

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// countedRedis is asynq's connection, with the requests that go over it counted.
type countedRedis struct {
	asynq.RedisClientOpt

	requests *atomic.Int64
}

func (c countedRedis) MakeRedisClient() any {
	client := c.RedisClientOpt.MakeRedisClient()
	if hooked, ok := client.(redis.UniversalClient); ok {
		hooked.AddHook(c)
	}
	return client
}

func (c countedRedis) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

func (c countedRedis) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.requests.Add(1)
		return next(ctx, command)
	}
}

func (c countedRedis) ProcessPipelineHook(
	next redis.ProcessPipelineHook,
) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.requests.Add(int64(len(commands)))
		return next(ctx, commands)
	}
}
