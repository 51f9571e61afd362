package deployment

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/rueidis"
)

// Dial connects a client with options that redisstore.ClientOption has made. If
// isCluster, the servers have to be one. The error is [renewer.ErrConfig] if
// the server refuses us, [renewer.ErrUnavailable] if it does not answer, or
// ctx's cause. Then nothing is left behind.
func Dial(
	ctx context.Context, option rueidis.ClientOption, isCluster bool,
) (rueidis.Client, error) {
	secrets := SecretsOf(&option)
	// rueidis.NewClient hears of no context. Without connections it ends at
	// once.
	o := &opening{ctx: ctx, dial: option.DialCtxFn}
	option.DialCtxFn = o.dialCtx
	leave := context.AfterFunc(ctx, o.fail)
	client, err := rueidis.NewClient(option)
	leave()
	if err != nil {
		o.fail() // goroutines of rueidis may still dial, and none closes what they get
	} else {
		o.succeed()
	}
	if ctx.Err() != nil {
		if err == nil {
			client.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, refused(option, secrets, err)
	}
	if isCluster && client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, wrong("the server at " + hosts(option) + " is none of a cluster: leave out " +
			clusterVariable + ", or cluster=true in the URL")
	}
	return client, nil
}

// opening is the time in which a client is being made.
type opening struct {
	ctx  context.Context
	dial func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

	mu           sync.Mutex
	made, failed bool
	conns        []net.Conn
}

// dialCtx dials for the client, now and later. The dials of this time end with
// its context.
func (o *opening) dialCtx(
	ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config,
) (net.Conn, error) {
	if o.isMade() {
		return o.dial(ctx, addr, dialer, config)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	leave := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	conn, err := o.dial(ctx, addr, dialer, config)
	leave()
	if err == nil {
		o.keep(conn)
	}
	return conn, err
}

func (o *opening) isMade() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.made
}

func (o *opening) keep(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.made:
	case o.failed:
		_ = conn.Close()
	default:
		o.conns = append(o.conns, conn)
	}
}

// fail closes all connections, and those that are still being made, unless the
// client is made.
func (o *opening) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = !o.made
	for _, conn := range o.conns {
		_ = conn.Close()
	}
	o.conns = nil
}

// succeed leaves the connections to the client, unless they are closed.
func (o *opening) succeed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made, o.conns = !o.failed, nil
}
