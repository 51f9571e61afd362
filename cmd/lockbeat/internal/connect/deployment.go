package connect

import (
	"cmp"
	"context"
	"net"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Deployment is what the variables lead to, for a command that looks at the
// servers themselves. Its methods may be called concurrently.
type Deployment struct {
	// Client is connected to it. The caller closes it.
	Client rueidis.Client
	// Master is how the Sentinels call the primary; "" where there are none.
	Master string
	// Prefix is what the keys begin with.
	Prefix string

	option rueidis.ClientOption
}

// Dial connects to Redis, and makes no store. Errors are as for [Open].
func Dial(ctx context.Context) (*Deployment, error) {
	s, err := read(ctx)
	if err != nil {
		return nil, err
	}
	client, err := dial(ctx, s.Option, s.Cluster)
	if err != nil {
		return nil, err
	}
	return &Deployment{
		Client: client, Master: s.Option.Sentinel.MasterSet,
		Prefix: cmp.Or(s.Prefix, redisstore.DefaultPrefix), option: s.Option,
	}, nil
}

func dial(
	ctx context.Context, option rueidis.ClientOption, isCluster bool,
) (rueidis.Client, error) {
	option, err := redisstore.ClientOption(option, renewer.DefaultTTL)
	if err != nil {
		return nil, err
	}
	return deployment.Dial(ctx, option, isCluster)
}

// Addresses are those that the variables name.
func (d *Deployment) Addresses() []string { return d.option.InitAddress }

// Sentinel connects to one of the Sentinels. The caller closes the client.
func (d *Deployment) Sentinel(ctx context.Context, address string) (rueidis.Client, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true,
		Username: d.option.Sentinel.Username, Password: d.option.Sentinel.Password,
		TLSConfig: d.option.Sentinel.TLSConfig,
	}
	if host, _, err := net.SplitHostPort(address); err == nil && option.TLSConfig != nil &&
		option.TLSConfig.ServerName == "" {
		option.TLSConfig = option.TLSConfig.Clone()
		option.TLSConfig.ServerName = host
	}
	return dial(ctx, option, false)
}
